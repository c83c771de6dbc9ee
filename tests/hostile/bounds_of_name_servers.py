"""Bounds on what one request may ask of a name server."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from random import Random

from rocketpy.wire.bodies import registration_steps
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.names import RETRY_PREFIX, STORED_NAME_MAX_LENGTH, TOPIC_MAX_LENGTH
from rocketpy_broker_sim.namesrv import processor as namesrv
from tests.hostile.bound_pairs import (
    ERROR,
    INVALID,
    OK,
    frames_of,
    padded,
    pair,
    settings,
)
from tests.hostile.frames import request
from tests.hostile.measure import Attack
from tests.hostile.samples import small_body, small_fields
from tests.hostile.shapes import dump, fresh


def _registrations(code: RequestCode) -> Iterator[Attack]:
    def of(body: bytes = b"", **more: str) -> bytes:
        fields = small_fields(code) | {"brokerName": fresh("b")} | more
        return request(code, fields, body or small_body(code))

    def address(size: int) -> str:
        return "h" * (size - 2) + ":1"

    def topics(members: dict[str, object], **more: object) -> bytes:
        return of(dump({"topicConfigSerializeWrapper": {"topicConfigTable": members}} | more))

    def sized(size: int) -> bytes:
        """A topic whose settings have so many characters."""
        around = len(dump(_topic("T", "")))
        return topics({"T": _topic("T", "x" * (size - around)), "U": _topic("U", "")})

    most, servers = namesrv.MAX_ADDRESS, namesrv.MAX_FILTER_SERVERS
    yield from pair(
        "processor.MAX_ADDRESS", most, "an address of {} letters", lambda n: of(brokerAddr=address(n)), beyond=ERROR
    )
    yield from pair(
        "processor.MAX_ADDRESS",
        most,
        "an address for replicas of {} letters",
        lambda size: of(haServerAddr=address(size)),
        beyond=ERROR,
    )
    yield from pair(
        "processor.MAX_ZONE",
        namesrv.MAX_ZONE,
        "a zone of {} letters",
        lambda size: of(__ZONE_NAME="z" * size),
        beyond=ERROR,
    )
    # More are left out.
    yield from pair(
        "processor.MAX_FILTER_SERVERS",
        servers,
        "{} filter servers",
        lambda count: topics({}, filterServerList=[f"10.0.0.1:{number}" for number in range(count)]),
        beyond=OK,
    )
    yield from pair(
        "names.STORED_NAME_MAX_LENGTH",
        STORED_NAME_MAX_LENGTH,
        "a topic of {} letters",
        lambda size: topics(
            {name: _topic(name, "") for name in ("T", "U", RETRY_PREFIX + "T" * (size - len(RETRY_PREFIX)))}
        ),
        beyond=OK,
    )
    yield from pair(
        "registration_steps._MOST_OF_ONE",
        registration_steps._MOST_OF_ONE,
        "{} characters of one topic",
        sized,
        beyond=OK,
    )
    yield from pair(
        "registration_steps.MOST_INFLATED",
        registration_steps.MOST_INFLATED,
        "{} bytes, compressed",
        lambda size: of(_packed(size), compressed="true"),
        beyond=ERROR,
    )
    # Java's quotes: what no broker of Apache's sends is read slowly.
    yield from pair(
        "registration_steps._MOST_OF_DIALECT",
        registration_steps._MOST_OF_DIALECT,
        "{} bytes as only fastjson reads them",
        lambda size: of(padded(b"{'topicConfigSerializeWrapper':{'topicConfigTable':{}}@}", size)),
        beyond=ERROR,
    )
    # Brackets, numbers and the commas between them; two brackets for a number make the sum even.
    yield from pair(
        "registration_steps._MOST_TOKENS",
        registration_steps._MOST_TOKENS,
        "{} tokens that are passed over",
        lambda count: of(b'{"x":[' + b"1," * ((count - 2) // 2 - 1 + count % 2) + (b"1]}" if count % 2 else b"[]]}")),
        beyond=ERROR,
    )


def _topic(name: str, text: str) -> dict[str, object]:
    return {"topicName": name, "readQueueNums": 4, "x": text}


def _packed(size: int) -> bytes:
    """The compressed form of a registration that inflates to so many bytes; they are not compressed much."""
    letters = bytes(range(65, 91)) + bytes(range(97, 123)) + b"0123456789+-"
    version, end = _sized(dump({"counter": 1, "stateVersion": 0, "timestamp": 1})), _sized(b"[]") + bytes(4)
    room, each = size - len(version) - 4 - len(end), 60_000
    sizes = [each] * (room // each - 1)
    parts = []
    for number, length in enumerate([*sizes, (rest := room - sum(sizes)) // 2, rest - rest // 2]):
        around = f'T{number} 4 4 6 SINGLE_TAG {{"a":"@"}}'.encode()
        text = Random(number).randbytes(length - 4 - len(around) + 1).translate(letters * 4)
        parts.append(_sized(around.replace(b"@", text)))
    return zlib.compress(b"".join([version, len(parts).to_bytes(4, "big"), *parts, end]), 1)


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _routes(code: RequestCode) -> Iterator[Attack]:
    def of(body: bytes = b"", topic: str = "") -> bytes:
        return request(code, small_fields(code) | {"topic": topic or fresh("T")}, body or small_body(code))

    yield from pair(
        "processor.MAX_ROUTE_BODY",
        namesrv.MAX_ROUTE_BODY,
        "a route of {} bytes",
        lambda size: of(padded(b"@" + small_body(code), size)),
        beyond=INVALID,
    )
    yield from pair(
        "names.TOPIC_MAX_LENGTH",
        TOPIC_MAX_LENGTH,
        "a topic of {} letters",
        lambda size: of(topic="T" * size),
        beyond=INVALID,
    )


def _versions(code: RequestCode) -> Iterator[Attack]:
    yield from pair(
        "processor.MAX_VERSION_BODY",
        namesrv.MAX_VERSION_BODY,
        "a version of {} bytes",
        lambda size: request(code, small_fields(code), padded(b"@" + small_body(code), size)),
        beyond=ERROR,
    )


BOUNDS: dict[RequestCode, Callable[[RequestCode], Iterator[Attack]]] = {
    RequestCode.BROKER_HEARTBEAT: frames_of,
    RequestCode.UPDATE_NAMESRV_CONFIG: settings,
    RequestCode.REGISTER_BROKER: _registrations,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: _routes,
    RequestCode.QUERY_DATA_VERSION: _versions,
}
