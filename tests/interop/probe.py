"""Ask a server a question in plain RocketMQ remoting, with nothing of our own packages.

The harness uses it to see whether servers are ready and to make topics. It asks over a blocking socket, in either
header encoding, and knows a handful of requests; being written apart from `rocketpy`, it does not share an error with
what it helps to test.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tests.interop.failure import InteropError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

UPDATE_AND_CREATE_TOPIC = 17
GET_ROUTEINFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106
SUCCESS = 0
TOPIC_NOT_EXIST = 17
JSON, ROCKETMQ = 0, 1
"""The marks of the two header encodings, of which the second is binary."""

PAUSE = 0.05
"""Between two looks at a server that is not ready: the only wait for a time in the harness."""

ANSWERED_WITHIN = 30.0
"""Seconds: Apache's broker itself allows five for a new file alone, and a machine may have other things to do."""

T = TypeVar("T")
Request: TypeAlias = "tuple[int, Mapping[str, object], bytes]"
"""Its code, its fields and its body."""
_PYTHON = 3
_opaque = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    """A response frame."""

    code: int
    remark: str | None
    body: bytes
    fields: Mapping[str, str] = field(default_factory=dict)
    encoding: int = JSON
    """How its header was written."""
    opaque: int = 0
    flag: int = 1
    """Its lowest bit says that it answers: servers send requests of their own."""

    def json(self) -> Any:
        """The body, which fastjson may have written with bare numbers as keys."""
        text = self.body.decode("utf-8")
        return json.loads(re.sub(r"([{,])(-?\d+):", r'\1"\2":', text))


def call(
    address: str,
    code: int,
    fields: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    encoding: int = JSON,
    timeout: float = ANSWERED_WITHIN,
) -> Answer:
    """One request on a connection of its own.

    Raises:
        OSError: Nobody answers at the address (TimeoutError within it).
    """
    with _connected(address, timeout) as connection:
        connection.sendall(encode(code, fields or {}, body, encoding))
        return _answer(connection)


def converse(address: str, requests: Sequence[Request], *, timeout: float = ANSWERED_WITHIN) -> list[Answer]:
    """Several requests on one connection, each sent when the one before it has been answered.

    What the server asks of its own accord is passed over.

    Raises:
        OSError: One of them is not answered (TimeoutError within it).
    """
    answers = []
    with _connected(address, timeout) as connection:
        for code, fields, body in requests:
            connection.sendall(encode(code, fields, body))
            while not (answer := _answer(connection)).flag & 1:
                pass
            answers.append(answer)
    return answers


def is_answered(address: str, code: int, *, timeout: float = ANSWERED_WITHIN) -> bool:
    """Whether a server answers a request at all: good ones, before it and after it, show that it is awake.

    Raises:
        OSError: It does not answer the good ones either.
    """
    asked = encode(code, {}, b"")
    with _connected(address, timeout) as connection:
        connection.sendall(asked)
        opaques = []
        for _ in range(2):
            connection.sendall(encode(GET_BROKER_CLUSTER_INFO, {}, b""))
            opaques.append(_answer(connection).opaque)
    return json.loads(asked[8:])["opaque"] in opaques


def encode(code: int, fields: Mapping[str, object], body: bytes, encoding: int = JSON) -> bytes:
    """A request frame."""
    texts = {key: str(value) for key, value in fields.items()}
    header = (_binary_header if encoding == ROCKETMQ else _json_header)(code, texts)
    return struct.pack(">iI", 4 + len(header) + len(body), encoding << 24 | len(header)) + header + body


def _json_header(code: int, fields: Mapping[str, str]) -> bytes:
    header = {"code": code, "language": "PYTHON", "version": 0, "opaque": next(_opaque), "flag": 0}
    return json.dumps({**header, "serializeTypeCurrentRPC": "JSON", "extFields": fields}).encode()


def _binary_header(code: int, fields: Mapping[str, str]) -> bytes:
    pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
    packed = b"".join(
        struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value for name, value in pairs
    )
    return struct.pack(">hbhiiii", code, _PYTHON, 0, next(_opaque), 0, 0, len(packed)) + packed


def decode(frame: bytes) -> Answer:
    """Read a frame without its first length. Apache's servers answer in the encoding they are set to."""
    (mark,) = struct.unpack_from(">I", frame)
    encoding, length = mark >> 24, mark & 0xFFFFFF
    header, body = frame[4 : 4 + length], frame[4 + length :]
    if encoding == ROCKETMQ:
        return _decode_binary(header, body)
    fields = json.loads(header)
    extra = fields.get("extFields") or {}
    return Answer(fields["code"], fields.get("remark"), body, extra, JSON, fields["opaque"], fields["flag"])


def _decode_binary(header: bytes, body: bytes) -> Answer:
    code, _language, _version, opaque, flag, length = struct.unpack_from(">hbhiii", header)
    at = 17
    remark = header[at : at + length].decode() if length else None
    (left,) = struct.unpack_from(">i", header, at := at + length)
    fields = {}
    end = (at := at + 4) + left
    while at < end:
        (length,) = struct.unpack_from(">h", header, at)
        name = header[(at := at + 2) : (at := at + length)].decode()
        (length,) = struct.unpack_from(">i", header, at)
        fields[name] = header[(at := at + 4) : (at := at + length)].decode()
    return Answer(code, remark, body, fields, ROCKETMQ, opaque, flag)


def eventually(look: Callable[[], T | None], what: str, timeout: float) -> T:
    """Look until the answer is neither None nor an OSError.

    Raises:
        InteropError: The time passed; the message says what the last look met.
    """
    deadline = time.monotonic() + timeout
    while True:
        last: object = None
        try:
            answer = look()
        except OSError as exc:
            answer, last = None, exc
        if answer is not None:
            return answer
        if time.monotonic() >= deadline:
            raise InteropError(f"no {what} within {timeout:g} s" + (f", last: {last!r}" if last else ""))
        time.sleep(PAUSE)


def broker_addresses(namesrv: str) -> dict[str, dict[str, str]]:
    """Broker name to id to address, as a name server knows them now."""
    answer = call(namesrv, GET_BROKER_CLUSTER_INFO)
    if answer.code != SUCCESS:
        raise InteropError(f"{namesrv} answers the cluster request with {answer.code}: {answer.remark}")
    table = answer.json().get("brokerAddrTable") or {}
    return {name: dict(data["brokerAddrs"]) for name, data in table.items()}


def wait_serving(address: str, timeout: float = 30.0) -> None:
    """Wait until a name server answers requests."""
    eventually(lambda: broker_addresses(address) is not None or None, f"name server at {address}", timeout)


def wait_registered(namesrv: str, broker: str, timeout: float = 30.0) -> str:
    """Wait until a master is registered; its address."""

    def look() -> str | None:
        return broker_addresses(namesrv).get(broker, {}).get("0")

    return eventually(look, f"registration of {broker} at {namesrv}", timeout)


def create_topic(broker: str, topic: str, *, queues: int = 4, timeout: float = ANSWERED_WITHIN) -> None:
    """Create or update a topic at one broker, as `updateTopic -b` does."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    answer = call(broker, UPDATE_AND_CREATE_TOPIC, fields, timeout=timeout)
    if answer.code != SUCCESS:
        raise InteropError(f"{broker} refuses topic {topic}: {answer.code} {answer.remark}")


def route(namesrv: str, topic: str) -> dict[str, Any] | None:
    """The route of a topic, None while the name server knows none."""
    answer = call(namesrv, GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"})
    if answer.code == TOPIC_NOT_EXIST:
        return None
    if answer.code != SUCCESS:
        raise InteropError(f"{namesrv} answers the route of {topic} with {answer.code}: {answer.remark}")
    found: dict[str, Any] = answer.json()
    return found


def wait_route(namesrv: str, topic: str, *, brokers: int = 1, timeout: float = 15.0) -> dict[str, Any]:
    """Wait until a topic is routed to at least so many brokers."""

    def look() -> dict[str, Any] | None:
        found = route(namesrv, topic)
        return found if found and len(found.get("queueDatas") or []) >= brokers else None

    return eventually(look, f"route of {topic} at {namesrv}", timeout)


def _connected(address: str, timeout: float) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout)


def _answer(connection: socket.socket) -> Answer:
    (total,) = struct.unpack(">i", _receive(connection, 4))
    return decode(_receive(connection, total))


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionResetError(f"closed after {len(parts)} of {size} bytes")
        parts += part
    return bytes(parts)
