"""Attacks of a broker on a client: every request that clients process, at its limits, to consumers of every kind."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from rocketpy.wire.catalogue.exchanges import header_class
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.compression import CompressionType, compression_flag
from rocketpy.wire.limits import DEFAULT_LIMITS
from rocketpy.wire.sysflag import COMPRESSED
from tests.hostile.attacks import of_any
from tests.hostile.frames import LARGEST_BODY, MIB, ONEWAY, raw, request
from tests.hostile.measure import HELD, Attack
from tests.hostile.messages import message
from tests.hostile.routed import UNKNOWN_TO_CLIENTS, of_clients
from tests.hostile.samples import DRIVEN, group_of, value_of
from tests.hostile.shapes import dump

BROKER = "broker-a"
KINDS = ("concurrent", "orderly", "broadcast", "lite", "pull", "producer", "nobody")
"""The kinds of groups: consumers of every kind, a producer, and a group that is not in the client."""
ASKED = group_of("transactions")
"""The group of the producer that is asked how transactions have ended."""
_GROUP = {"group": group_of("concurrent"), "consumerGroup": group_of("concurrent"), "topic": DRIVEN}
_CLOSING = ("a header too long", "too many fields", "a deep header", "a body too large", "fields that are no text")
"""Attacks that end the connection before the code is read. They are tried with one code only, because a client takes a
second to reconnect."""
_ENDS = (-(2**63), -(2**31), -1, 2**31, 2**62, 2**63 - 1, 2**63, "x", "", 1.5, True, None, [], {}, [[1]], "9" * 5000)
"""Offsets that no queue has, or that are no numbers."""
_Frames = Callable[[], list[bytes]]


def attacks(code: RequestCode) -> list[Attack]:
    """All attacks of a code on a client."""
    general = of_any(code, small_fields(code), small_body(code))
    if code != UNKNOWN_TO_CLIENTS:
        general = (each for each in general if each.name not in _CLOSING)
    return [*general, *_SPECIAL.get(code, lambda: iter(()))()]


def small_fields(code: RequestCode) -> dict[str, str]:
    """The header of a small request to the concurrent consumer."""
    kind = header_class(code)
    wanted = [] if kind is None else [field for field in kind.wire_fields if field.required]
    return {field.name: _GROUP.get(field.name, value_of(field)) for field in wanted}


def small_body(code: RequestCode) -> bytes:
    """The body of a small request."""
    if code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
        return offsets({0: 0})
    return message() if code == RequestCode.CONSUME_MESSAGE_DIRECTLY else b""


def offsets(wanted: dict[int, Any], *, topic: str = DRIVEN, broker: str = BROKER) -> bytes:
    """The body of a reset, with an offset by queue id."""
    queues = {number: {"brokerName": broker, "queueId": number, "topic": topic} for number in wanted}
    return dump({"offsetTable": {dump(queues[number]).decode(): offset for number, offset in wanted.items()}})


def of_group(code: RequestCode, kind: str) -> dict[str, str]:
    """The header of a small request to the consumer of a kind."""
    return {
        name: group_of(kind) if name in ("group", "consumerGroup") else value
        for name, value in small_fields(code).items()
    }


# --- by code -----------------------------------------------------------------------------------------------


def _strangers() -> Iterator[Attack]:
    unsupported = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    codes = (RequestCode.CHECK_TRANSACTION_STATE, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 0, -1, 2**31 - 1, 1500)
    for code in set(codes) - of_clients():
        yield Attack(name=f"the code {int(code)}", frames=lambda code=code: [request(code)], answer=unsupported)
    heavy = "{" + ",".join(f"'f{number}':'x'" for number in range(4000)) + "}"
    header = f"{{'code':{int(UNKNOWN_TO_CLIENTS)},'flag':{ONEWAY},'opaque':1,'extFields':{heavy}}}".encode()
    yield Attack(name="100 headers in single quotes", frames=lambda: [raw(header) * 100])
    yield Attack(name="3,000 of them", frames=lambda: [request(UNKNOWN_TO_CLIENTS) for _ in range(3000)])


def _notices() -> Iterator[Attack]:
    code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    each = [of_group(code, kind) for kind in KINDS]
    flood = [request(code, fields, flag=ONEWAY) for fields in itertools.islice(itertools.cycle(each), 5000)]
    yield Attack(
        name="every kind of group has changed", frames=lambda: [request(code, one) for one in each], answer=HELD
    )
    yield Attack(name="5,000 notices", frames=lambda: flood)


def _resets() -> Iterator[Attack]:
    code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET

    def to(*bodies: bytes, **more: int) -> _Frames:
        return lambda: [request(code, of_group(code, kind), body, **more) for body in bodies for kind in KINDS]

    def table(keys: list[str]) -> bytes:
        return dump({"offsetTable": dict.fromkeys(keys, 1)})

    def large(count: int) -> bytes:
        return offsets(dict.fromkeys(range(count), 1))

    impossible = [offsets(dict.fromkeys(range(4), end)) for end in _ENDS]
    elsewhere = [offsets({0: 1}, topic="Other"), offsets({0: 1}, broker="broker-z"), offsets({-1: 1, 2**31: 1, 99: 1})]
    odd = [
        "",
        "x",
        "[]",
        "{}",
        "{",
        "0",
        "null",
        '{"topic":1}',
        '{"topic":{},"brokerName":[],"queueId":"x"}',
        "[" * 500,
    ]
    bare = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"Driven"}:0'
    cut = [offsets({0: 0})[:size] for size in (1, 5, 20, 40, 60)]
    yield Attack(name="offsets that no queue has", frames=to(*impossible))
    yield Attack(name="queues of others", frames=to(*elsewhere))
    yield Attack(name="keys that are no queues", frames=to(*(table([key]) for key in odd)))
    yield Attack(name="bodies cut off", frames=to(*cut, bare, bare + b"}"))
    yield Attack(name="10,000 queues", frames=lambda: [request(code, of_group(code, "concurrent"), large(10_000))])
    yield Attack(
        name="40,000 keys that are no queues",
        frames=lambda: [request(code, of_group(code, "lite"), table([f"k{n}" for n in range(40_000)]))],
    )
    yield Attack(name="to the beginning", frames=to(offsets(dict.fromkeys(range(4), 0)), flag=ONEWAY))
    yield Attack(
        name="2,000 resets", frames=to(*[offsets(dict.fromkeys(range(4), n)) for n in range(290)], flag=ONEWAY)
    )


def _status() -> Iterator[Attack]:
    code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    for kind in KINDS:
        yield Attack(name=f"of {kind}", frames=lambda kind=kind: [request(code, of_group(code, kind))], answer=0)
    yield Attack(name="2,000 times", frames=lambda: [request(code, of_group(code, "concurrent")) for _ in range(2000)])


def _infos() -> Iterator[Attack]:
    code = RequestCode.GET_CONSUMER_RUNNING_INFO

    def of(kind: str, count: int = 1, **more: int) -> _Frames:
        fields = of_group(code, kind) | {"jstackEnable": "true"}
        return lambda: [request(code, fields, **more) for _ in range(count)]

    for kind in KINDS:
        known = kind not in ("producer", "nobody")
        answer = ResponseCode.SUCCESS if known else ResponseCode.SYSTEM_ERROR
        yield Attack(name=f"of {kind}", frames=of(kind), answer=answer)
    yield Attack(name="500 times", frames=of("concurrent", 500))
    yield Attack(name="500 times, and no answer is wanted", frames=of("orderly", 500, flag=ONEWAY))


def _directly() -> Iterator[Attack]:
    code = RequestCode.CONSUME_MESSAGE_DIRECTLY
    good, bad = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR

    def one(body: bytes, kind: str = "concurrent", **more: int) -> _Frames:
        return lambda: [request(code, of_group(code, kind), body, **more)]

    for kind in KINDS:
        answer = good if kind in ("concurrent", "orderly", "broadcast") else bad
        yield Attack(name=f"by {kind}", frames=one(message(), kind), answer=answer)
    for name, body in _damaged(message()).items():
        yield Attack(name=name, frames=one(body), answer=bad)
    for name, body in _bombs().items():
        # What is unpacked may have 32 MiB, and zlib copies it as it grows.
        yield Attack(name=name, frames=one(body), answer=bad, at_once=4)
    retried = message(topic=f"%RETRY%{group_of('orderly')}", properties=f"RETRY_TOPIC\x01{DRIVEN}\x02".encode())
    yield Attack(name="one that was retried", frames=one(retried, "orderly"), answer=good)
    yield Attack(
        name="of odd properties", frames=one(message(properties=b"\x01\x02" * 9000 + b"\xff\x01x")), answer=good
    )
    yield Attack(name="of a queue -1", frames=one(message(queue_id=-1)), answer=good)
    yield Attack(name="of 12 MiB", frames=one(message(bytes(12 * MIB))), answer=good)
    yield Attack(name="eight of 12 MiB", at_once=8, frames=lambda: one(message(bytes(12 * MIB)))() * 8)
    yield Attack(name="1,000 of them", frames=lambda: [one(message())()[0] for _ in range(1000)])
    yield Attack(name="1,000 without an answer", frames=lambda: one(message(), "broadcast", flag=ONEWAY)() * 1000)


def half(
    number: int = 0, *, body: bytes = b"directly", group: str = ASKED, more: bytes = b"", sys_flag: int = 0
) -> bytes:
    """The half message of a transaction of a group."""
    properties = f"UNIQ_KEY\x01{number:032X}\x02PGROUP\x01{group}\x02TRAN_MSG\x01true\x02".encode()
    return message(body, properties=properties + more, sys_flag=sys_flag)


def check(body: bytes) -> bytes:
    """A broker's check of a transaction. Nobody answers it."""
    code = RequestCode.CHECK_TRANSACTION_STATE
    return request(code, small_fields(code), body, flag=ONEWAY)


def _checks() -> Iterator[Attack]:
    def of(*bodies: bytes) -> _Frames:
        return lambda: [check(body) for body in bodies]

    groups = [half(group=group_of(kind)) for kind in KINDS]
    large = [half(number, body=bytes(12 * MIB)) for number in range(8)]
    yield Attack(name="of groups that have no checker", frames=of(*groups, half(group=""), half(group="x" * 30_000)))
    yield Attack(name="damaged half messages", frames=of(*_damaged(half()).values()))
    yield Attack(name="a bomb of zlib", frames=of(half(body=_bomb(), sys_flag=COMPRESSED)), at_once=4)
    yield Attack(name="of odd properties", frames=of(half(more=b"\x01\x02" * 9000 + b"\xff\x01x")))
    yield Attack(name="5,000 checks", frames=of(*map(half, range(5000))))
    yield Attack(name="5,000 checks of one transaction", frames=of(*[half()] * 5000))
    yield Attack(name="eight of 12 MiB", frames=of(*large), at_once=8)


def _pushes() -> Iterator[Attack]:
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT

    def of(*properties: str, body: bytes = b"body", flag: int = 0, **more: str) -> _Frames:
        fields = small_fields(code) | more
        return lambda: [request(code, fields | {"properties": each}, body, flag=flag) for each in properties]

    ids = [f"CORRELATION_ID\x01{number:032x}\x02" for number in range(5000)]
    yield Attack(name="5,000 replies to nobody", frames=of(*ids), answer=ResponseCode.SUCCESS)
    yield Attack(name="5,000 that want no answer", frames=of(*ids, flag=ONEWAY))
    yield Attack(name="5,000 with one id", frames=of(*ids[:1] * 5000))
    yield Attack(name="ids of 30,000 letters", frames=of(*[f"CORRELATION_ID\x01{'x' * 30_000}\x02"] * 100))
    yield Attack(
        name="properties without an end", frames=of("\x01", "\x02", "\x01\x02" * 9000, "CORRELATION_ID", "\x01x")
    )
    yield Attack(name="a bomb of zlib", frames=of(*ids[:4], body=_bomb(), sysFlag=str(COMPRESSED)))
    yield Attack(name="compressed in an unknown way", frames=of(*ids[:4], sysFlag=str(COMPRESSED | 7 << 8)))
    yield Attack(name="hosts that are none", frames=of(*ids[:4], bornHost="x" * 300, storeHost="[::]:99999"))
    yield Attack(name="four of 12 MiB", frames=of(*ids[:4], body=bytes(12 * MIB)), at_once=4)


def _damaged(whole: bytes) -> dict[str, bytes]:
    tiny = message(b"", topic="")
    return {
        "no message": b"",
        "a message cut off": whole[:-1],
        "a head cut off": whole[:50],
        "bytes after the message": whole + b"\0",
        "two messages": whole * 2,
        "as many as there is room for": tiny * (LARGEST_BODY // len(tiny)),
        "another body than its CRC": whole.replace(b"directly", b"directlx"),
        "an unknown magic number": whole[:4] + bytes(4) + whole[8:],
        "a length below its own": b"\0\0\0\1" + whole[4:],
        "a length beyond its own": b"\x7f\xff\xff\xff" + whole[4:],
        "a negative length": b"\xff\xff\xff\xff" + whole[4:],
        "a topic that is not subscribed": message(topic="Other"),
        "a retried one without a topic": message(topic=f"%RETRY%{group_of('concurrent')}"),
        "compressed without need": message(b"plain", sys_flag=COMPRESSED),
        "compressed in an unknown way": message(b"plain", sys_flag=COMPRESSED | 7 << 8),
    }


def _bombs() -> dict[str, bytes]:
    found = {"a bomb of zlib": message(_bomb(), sys_flag=compression_flag(CompressionType.ZLIB))}
    found["a bomb in a bomb"] = message(_bomb(2), sys_flag=COMPRESSED)
    return found


def _bomb(times: int = 1) -> bytes:
    """What unpacks to more than is allowed."""
    return zlib.compress(bytes(DEFAULT_LIMITS.max_inflated + 1) * times)


_SPECIAL: dict[RequestCode, Callable[[], Iterator[Attack]]] = {
    UNKNOWN_TO_CLIENTS: _strangers,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: _notices,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: _resets,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: _status,
    RequestCode.GET_CONSUMER_RUNNING_INFO: _infos,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _directly,
    RequestCode.CHECK_TRANSACTION_STATE: _checks,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: _pushes,
}
