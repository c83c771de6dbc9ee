"""Remoting frames made by hand: what the raw loops send and count. Shares nothing with the packages it judges."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Self

from benchmarks.trouble import BenchmarkError

SEND_MESSAGE_V2 = 310
SEND_BATCH_MESSAGE = 320
PULL_MESSAGE = 11
UPDATE_AND_CREATE_TOPIC = 17
GET_MAX_OFFSET = 30
GET_ROUTE = 105

PULL_MAY_WAIT = 2
PULL_BRINGS_SUBSCRIPTION = 4

_HEADER = (
    '{"code":%d,"extFields":%s,"flag":%d,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":435}'
)
_PROPERTIES = "UNIQ_KEY\x017F00000100002A139A55{:012X}\x02WAIT\x01true\x02"


def frame(code: int, fields: Mapping[str, object], body: bytes = b"", *, opaque: int = 1, flag: int = 0) -> bytes:
    """One request."""
    ext = json.dumps({name: str(value) for name, value in fields.items()})
    header = (_HEADER % (code, ext, flag, opaque)).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def send_frame(
    topic: str,
    queue_id: int,
    body: bytes,
    *,
    batch: bool = False,
    opaque: int = 1,
    properties: Mapping[str, str] | None = None,
) -> bytes:
    """A message, or a batch of them, for one queue; `properties` are some more."""
    told = "WAIT\x01true\x02" if batch else _PROPERTIES.format(queue_id)
    for name, value in (properties or {}).items():
        told += f"{name}\x01{value}\x02"
    values = ("bench_raw", topic, "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, told, 0, "false", batch)
    fields = dict(zip("abcdefghijkm", map(_spelled, values), strict=True))
    return frame(SEND_BATCH_MESSAGE if batch else SEND_MESSAGE_V2, fields, body, opaque=opaque)


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def batch_body(bodies: Sequence[bytes]) -> bytes:
    """Messages one after the other, as a batch carries them."""
    items = []
    for number, body in enumerate(bodies):
        properties = _PROPERTIES.format(number).encode()
        size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(properties)
        items.append(struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body)
        items.append(struct.pack(">h", len(properties)) + properties)
    return b"".join(items)


def pull_frame(group: str, topic: str, queue_id: int, offset: int, *, wait_ms: int = 0, opaque: int = 1) -> bytes:
    """A pull of up to 32 messages."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": PULL_BRINGS_SUBSCRIPTION | (PULL_MAY_WAIT if wait_ms else 0),
        "commitOffset": 0,
        "suspendTimeoutMillis": wait_ms,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    return frame(PULL_MESSAGE, fields, opaque=opaque)


def create_topic_frame(topic: str, queues: int) -> bytes:
    """A topic that may be read and written, with as many queues for both."""
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
    return frame(UPDATE_AND_CREATE_TOPIC, fields)


class Wire:
    """A blocking socket that sends frames and reads whole answers."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def read(self) -> list[bytes]:
        """The whole frames of the next chunk, without their first length; at least one."""
        answers: list[bytes] = []
        data = self._rest
        while not answers:
            chunk = self.socket.recv(1 << 18)
            if not chunk:
                raise BenchmarkError("the server closed the connection of a raw loop")
            data = data + chunk if data else chunk
            at, size = 0, len(data)
            while size - at >= 4:
                end = at + 4 + int.from_bytes(data[at : at + 4], "big")
                if end > size:
                    break
                answers.append(data[at + 4 : end])
                at = end
            data = data[at:]
        self._rest = data
        return answers

    def ask(self, request: bytes) -> tuple[dict[str, Any], bytes]:
        """Send one request and take its answer apart: header and body.

        Raises:
            BenchmarkError: the server refused.
        """
        self.socket.sendall(request)
        (answer,) = self.read()
        header, body = split(answer)
        if header["code"] != 0:
            raise BenchmarkError(f"a raw request was refused: {header['code']} {header.get('remark')}")
        return header, body


def split(answer: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and body of a frame without its first length."""
    size = int.from_bytes(answer[1:4], "big")
    return json.loads(answer[4 : 4 + size]), answer[4 + size :]
