"""What one request code alone lets be large."""

from __future__ import annotations

import base64
import itertools
import random
import zlib
from collections.abc import Callable, Iterable, Iterator

from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.broker.putting.batch_items import MOST_ITEMS
from rocketpy_broker_sim.config import MAX_UPDATE
from tests.hostile.frames import MAX_HEADER, MIB, request
from tests.hostile.measure import Attack
from tests.hostile.samples import ATTACKED, SHORT_CODES, item, small_body, small_fields
from tests.hostile.shapes import dump, fresh

_ROOM = MAX_HEADER - 4096
OK, REFUSED = ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_PARSE_FAILED


def special(code: RequestCode) -> Iterator[Attack]:
    """The attacks of a code that no declaration tells."""
    make = _SPECIAL.get(code)
    if make is not None:
        yield from make(code)


def _sends(code: RequestCode) -> Iterator[Attack]:
    name = "i" if code in SHORT_CODES else "properties"

    def with_properties(text: str, body: bytes = b"body") -> Callable[[], list[bytes]]:
        return lambda: [request(code, small_fields(code) | {name: text}, body)]

    keys = " ".join(f"k{number}" for number in range(5_000))
    yield Attack(name="a message of 4 MiB", frames=with_properties("", bytes(4 * MIB)))
    yield Attack(name="a message over 4 MiB", frames=with_properties("", bytes(4 * MIB + 65_536)))
    yield Attack(name="properties of 32,767 bytes", frames=with_properties("a\x01" + "x" * 32_500 + "\x02"))
    yield Attack(name="properties of 1 MiB", frames=with_properties("a\x01b\x02" * (_ROOM // 20)))
    yield Attack(name="properties without an end", frames=with_properties("\x01\x02" * (_ROOM // 12)))
    yield Attack(name="5,000 keys", frames=with_properties(f"KEYS\x01{keys[:32_000]}\x02"))
    yield Attack(name="a key of 32,000 letters", frames=with_properties(f"KEYS\x01{'x' * 32_000}\x02"))
    for level in ("-1", "0", "19", "2147483648", "9" * 30_000, "x"):
        yield Attack(name=f"delay level {level[:12]}", frames=with_properties(f"DELAY\x01{level}\x02"))
    half = "TRAN_MSG\x01true\x02PGROUP\x01{}\x02UNIQ_KEY\x01{}\x02"
    for name, properties in (
        ("500 half messages", half.format("p", "u")),
        (
            "500 half messages that nobody may ask about",
            half.format("p", "u") + f"CHECK_IMMUNITY_TIME_IN_SECONDS\x01{'9' * 18}\x02",
        ),
        ("500 half messages with long names", half.format("p" * 10_000, "u" * 20_000)),
        ("500 half messages checked often", half.format("p", "u") + "TRANSACTION_CHECK_TIMES\x01999999\x02"),
    ):
        make = with_properties(properties)
        yield Attack(name=name, frames=lambda make=make: [make()[0] for _ in range(500)])
    for delay in ("-1", "0", "259200", "259201", "9" * 30_000, "x"):
        yield Attack(name=f"delay of {delay[:12]} s", frames=with_properties(f"TIMER_DELAY_SEC\x01{delay}\x02"))
    forged = "TIMER_DELAY_SEC\x0160\x02TIMER_OUT_MS\x01x\x02TIMER_DEL_UNIQKEY\x01a\x02REAL_TOPIC\x01a\x02"
    yield Attack(name="a timer message with forged properties", frames=with_properties(forged))


def _recalls(code: RequestCode) -> Iterator[Attack]:
    def of(handle: str) -> Callable[[], list[bytes]]:
        return lambda: [request(code, small_fields(code) | {"recallHandle": handle})]

    good = small_fields(code)["recallHandle"]
    parts = (
        "v2 T b 1 u",
        f"v1 {ATTACKED} broker-a {'9' * 30_000} u",
        f"v1 {ATTACKED} broker-a x u",
        "v1",
        " " * 30_000,
    )
    for text in parts:
        handle = base64.urlsafe_b64encode(text.encode()).decode()
        yield Attack(name=f"the handle {text[:12].strip()}, {len(text)} characters", frames=of(handle))
    yield Attack(name="a handle that is none", frames=of("%" * 30_000))
    yield Attack(name="1,000 recalls", frames=lambda: [request(code, small_fields(code)) for _ in range(1000)])
    yield Attack(name="a handle with more behind it", frames=of(good + "A" * 1000))


def _replies(code: RequestCode) -> Iterator[Attack]:
    yield from _sends(code)
    name = "i" if code in SHORT_CODES else "properties"

    def to(asker: str, body: bytes = b"body", count: int = 1) -> Callable[[], list[bytes]]:
        """Replies to itself: it is the producer that asked, too, and never answers what is pushed to it."""
        properties = f"MSG_TYPE\x01reply\x02CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01{asker}\x02"
        known = dump({"clientID": "hanging", "producerDataSet": [{"groupName": "P"}]})
        return lambda: [
            request(RequestCode.HEART_BEAT, {}, known),
            *(request(code, small_fields(code) | {name: properties}, body) for _ in range(count)),
        ]

    yield Attack(name="a thousand replies to a producer that never answers", frames=to("hanging", count=1000))
    yield Attack(name="replies of 4 MiB to one that never answers", frames=to("hanging", bytes(4 * MIB), 4), at_once=4)
    yield Attack(name="a reply to a client with a name of 30,000 letters", frames=to("x" * 30_000))


def _batches(code: RequestCode) -> Iterator[Attack]:
    def of(make: Callable[[], bytes]) -> Callable[[], list[bytes]]:
        return lambda: [request(code, small_fields(code), make())]

    one = item(b"x")
    yield Attack(name="a batch of 33,000 messages", frames=of(lambda: one * 33_000))
    yield Attack(name="a batch of as many as are taken", frames=of(lambda: one * MOST_ITEMS))
    forged = item(b"x", b"REAL_TOPIC\x01a\x02")
    yield Attack(name="a batch of as many, forged", frames=of(lambda: forged * MOST_ITEMS))
    yield Attack(name="a batch of the most messages", frames=of(lambda: one * (4 * MIB // len(one))))
    yield Attack(name="a batch over 4 MiB", frames=of(lambda: one * (4 * MIB // len(one) + 3_000)))
    yield Attack(name="a batch of 16 MiB", call="copy", frames=of(lambda: one * (15 * MIB // len(one))))
    keys = b"KEYS\x01" + b" ".join(b"k%d" % number for number in range(3_000)) + b"\x02"
    yield Attack(name="a batch of many keys", frames=of(lambda: item(b"x", keys) * 200))
    yield Attack(name="a batch of forged properties", frames=of(lambda: item(b"x", b"REAL_TOPIC\x01a\x02") * 30_000))
    yield Attack(name="a batch of messages without a body", frames=of(lambda: item(b"") * 30_000))
    yield Attack(name="a batch that ends early", frames=of(lambda: one * 30_000 + one[:-3]))
    yield Attack(name="a batch of lengths below zero", frames=of(lambda: b"\xff\xff\xff\xff" * 10_000))


def _registrations(code: RequestCode) -> Iterator[Attack]:
    def of(make: Callable[[], bytes], **more: str) -> Callable[[], list[bytes]]:
        return lambda: [request(code, small_fields(code) | {"brokerName": fresh("b")} | more, make())]

    def packed(count: int, text: Callable[[int], str], tail: bytes = b"") -> bytes:
        version = dump({"counter": 1, "stateVersion": 0, "timestamp": 1})
        parts = [_sized(version), count.to_bytes(4, "big")]
        parts += [_sized(text(number).encode()) for number in range(count)]
        return zlib.compress(b"".join([*parts, tail or _sized(b"[]") + bytes(4)]), 9)

    def topics(count: int) -> Callable[[], bytes]:
        return lambda: packed(count, lambda number: f"T{number} 4 4 6 SINGLE_TAG {{}}")

    alike = lambda: packed(150_000, lambda number: "T 4 4 6 SINGLE_TAG {}")  # noqa: E731
    deep = lambda: packed(5_000, lambda number: "T 4 4 6 SINGLE_TAG " + '{"a":{"b":' * 500)  # noqa: E731

    def full(size: int) -> Callable[[], bytes]:
        """One topic with text that cannot be made much shorter."""

        def make() -> bytes:
            text = base64.b64encode(random.Random(size).randbytes(size * MIB * 3 // 4)).decode()
            return packed(1, lambda number: 'T 4 4 6 SINGLE_TAG {"a":"' + text + '"}')

        return make

    twenty = full(20)  # which are more than 15 as they come, too
    attributes = "{" + ",".join(f'"+a{number}":"b"' for number in range(4_000)) + "}"
    many = lambda: packed(500, lambda number: f"T{number} 4 4 6 SINGLE_TAG {attributes}")  # noqa: E731
    for title, make in (
        ("50,000 topics, compressed", topics(50_000)),
        ("200,000 topics, compressed", topics(200_000)),
        ("one topic 150,000 times, compressed", alike),
        ("broken attributes, compressed", deep),
        ("most attributes, compressed", many),
        ("a text of 15 MiB, compressed", full(15)),
        ("a text of 20 MiB, compressed", twenty),
        ("zeros of 32 MiB, compressed", lambda: zlib.compress(bytes(32 * MIB - 1), 9)),
        ("zeros of 300 MiB, compressed", lambda: zlib.compress(bytes(300 * MIB), 9)),
        ("a compressed stream cut off", lambda: topics(20_000)()[:-100]),
        ("random bytes for compressed ones", lambda: bytes(range(256)) * 40_000),
    ):
        call = "copy" if make is twenty else ""
        yield Attack(name=title, call=call, frames=of(make, compressed="true"))
    zone = {"__ZONE_NAME": "z" * _ROOM}
    yield Attack(name="a zone of 1 MiB", frames=of(lambda: small_body(code), **zone))
    yield Attack(
        name="many brokers",
        frames=lambda: [
            request(
                code,
                small_fields(code) | {"brokerName": fresh("b"), "brokerAddr": f"10.0.0.1:{number}"},
                small_body(code),
            )
            for number in range(1, 500)
        ],
    )


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _topics(code: RequestCode) -> Iterator[Attack]:
    fields = small_fields(code)

    def of(**more: str) -> Callable[[], list[bytes]]:
        return lambda: [request(code, fields | {"topic": fresh("T")} | more)]

    yield Attack(name="most queues", frames=of(readQueueNums="65536", writeQueueNums="65536"))
    yield Attack(name="too many queues", frames=of(readQueueNums="65537", writeQueueNums="65537"))
    yield Attack(name="attributes of 1 MiB", frames=of(attributes=",".join(["+a=b"] * (_ROOM // 5))))
    yield Attack(name="attributes of commas", frames=of(attributes="," * _ROOM))
    yield Attack(name="500 new topics", frames=lambda: [of()()[0] for _ in range(500)])


def _groups(code: RequestCode) -> Iterator[Attack]:
    def make() -> list[bytes]:
        return [request(code, {}, dump({"groupName": fresh("G")})) for _ in range(500)]

    yield Attack(name="500 new groups", frames=make)


def _long_expression(number: int) -> str:
    return f"a IN ({','.join(['{!r}'.format('x')] * 4000)}) OR b = {number}"


def _heavy_expression(number: int) -> str:
    return " OR ".join(f"p{each} > {number}.5" for each in range(128))


def _wrong_expression(number: int) -> str:
    return f"{'(' * 16_000} a = {number} )"


def _deep_expression(number: int) -> str:
    """As deep as it may be: a parenthesis and a NOT are a part each."""
    return f"{'NOT (' * 31}a = {number}{')' * 31}"


def _slow_expression(number: int) -> str:
    """Many properties, and as many comparisons as there may be, of which none decides."""
    return " AND ".join(f"p{each % 80} BETWEEN -{number}.5 AND {each}.5" for each in range(85))


def _foreign_expression(number: int) -> str:
    """Texts where numbers are wanted, and characters that few write."""
    return f"a > '{number}' OR \u0000 b = \ud7ff"


_EXPRESSIONS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("long", _long_expression),
    ("heavy", _heavy_expression),
    ("wrong", _wrong_expression),
    ("deep", _deep_expression),
    ("slow", _slow_expression),
    ("foreign", _foreign_expression),
)


_RIGHT = ("long", "heavy", "deep", "slow")
"""Those among them that can be compiled."""
_numbers = itertools.count()
"""What makes an expression a new one."""


def _heartbeats(code: RequestCode) -> Iterator[Attack]:
    def beat(group: str, topics: list[str], make: Callable[[int], str], kind: object = "SQL92") -> bytes:
        wanted = [
            {"topic": topic, "subString": make(number), "expressionType": kind, "subVersion": number + 1}
            for number, topic in enumerate(topics)
        ]
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": wanted,
        }
        return request(code, {}, dump({"clientID": fresh("c"), "consumerDataSet": [consumer], "producerDataSet": []}))

    sent = request(RequestCode.SEND_MESSAGE, small_fields(RequestCode.SEND_MESSAGE), b"body")
    for name, make in _EXPRESSIONS:
        yield Attack(
            name=f"20 topics by {name} expressions in SQL",
            frames=lambda make=make: [beat(fresh("G"), [fresh("T") for _ in range(20)], make)],
        )
        yield Attack(
            name=f"20 groups by {name} expressions in SQL, and messages",
            frames=lambda make=make: [
                *(beat(fresh("G"), [ATTACKED], lambda _, number=number: make(number)) for number in range(20)),
                *[sent] * 50,
            ],
        )
    yield Attack(
        name="2,000 different expressions in SQL",
        frames=lambda: [
            beat(fresh("G"), [fresh("T")], lambda _, number=number: f"a = {number}") for number in range(2000)
        ],
    )
    for kind in ("XPATH", "", 7, None):
        yield Attack(
            name=f"expressions of the type {kind!r}",
            frames=lambda kind=kind: [beat(fresh("G"), [ATTACKED] * 50, _heavy_expression, kind)],
        )


def _pulls(code: RequestCode) -> Iterator[Attack]:
    fields = small_fields(code)

    def of(**more: str) -> Callable[[], list[bytes]]:
        return lambda: [request(code, fields | more)]

    tags = "||".join(f"t{number}" for number in range(100_000))
    yield Attack(name="100,000 tags", frames=of(subscription=tags[:_ROOM]))
    yield Attack(name="bars", frames=of(subscription="|" * _ROOM))
    yield Attack(name="an expression in SQL", frames=of(subscription="a = 1 AND " * 50_000, expressionType="SQL92"))
    held = {"sysFlag": "6", "suspendTimeoutMillis": "100", "queueOffset": "1"}
    yield Attack(name="1,000 held pulls", frames=lambda: [request(code, fields | held) for _ in range(1000)])
    sql = {"sysFlag": "4", "expressionType": "SQL92"}
    for name, make in _EXPRESSIONS:
        frames = [request(code, fields | sql | {"subscription": make(number)}) for number in range(20)]
        yield Attack(name=f"20 {name} expressions in SQL", frames=lambda frames=frames: frames)


def _resets(code: RequestCode) -> Iterator[Attack]:
    def resets(count: int) -> Callable[[], list[bytes]]:
        def make() -> list[bytes]:
            topic = fresh("R")
            queues = {"topic": topic, "readQueueNums": "65536", "writeQueueNums": "65536"}
            created = request(
                RequestCode.UPDATE_AND_CREATE_TOPIC, small_fields(RequestCode.UPDATE_AND_CREATE_TOPIC) | queues
            )
            reset = small_fields(code) | {"topic": topic, "isForce": "true"}
            return [created, *(request(code, reset) for _ in range(count))]

        return make

    yield Attack(name="a reset of 65,536 queues", frames=resets(1), answer=OK)
    yield Attack(name="eight resets of 65,536 queues", frames=resets(8), at_once=8, answer=OK)


def _locks(code: RequestCode) -> Iterator[Attack]:
    lock, unlock = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ

    def of(what: RequestCode, group: str, queues: Iterable[int], client: str = "one", topic: str = ATTACKED) -> bytes:
        wanted = [{"topic": topic, "brokerName": "broker-a", "queueId": number} for number in queues]
        return request(what, {}, dump({"consumerGroup": group, "clientId": client, "mqSet": wanted}))

    def many(what: RequestCode, group: str) -> list[bytes]:
        """32,768 queues, as many at a time as the bound on members lets through."""
        return [of(what, group, range(at, at + 8192)) for at in range(0, 32_768, 8192)]

    def apart(group: str) -> bytes:
        wanted = [{"topic": fresh("T"), "brokerName": "broker-a", "queueId": 0} for _ in range(8192)]
        return request(code, {}, dump({"consumerGroup": group, "clientId": "one", "mqSet": wanted}))

    def made(name: str, make: Callable[[str], list[bytes]]) -> Attack:
        return Attack(name=name, frames=lambda: make(fresh("L")), answer=OK)

    yield made("one queue", lambda group: [of(what, group, [0]) for what in (lock, unlock, lock, code)])
    yield made("32,768 queues", lambda group: [*many(lock, group), *many(unlock, group), of(code, group, [0])])
    yield made("the same queue 8,192 times", lambda group: [of(lock, group, [0]), of(code, group, [0] * 8192)])
    yield made("the same queue in 2,000 requests", lambda group: [of(code, group, [0]) for _ in range(2000)])
    yield made("8,192 queues of a topic that is not", lambda group: [of(code, group, range(8192), topic=fresh("T"))])
    yield made("one queue of each of 8,192 topics that are not", lambda group: [apart(group)])
    yield made("5,000 groups", lambda group: [of(code, fresh("L"), [0]) for _ in range(5000)])
    yield made(
        "two clients in turns",
        lambda group: [
            of(what, group, range(64), client)
            for _ in range(100)
            for client in ("one", "two")
            for what in (lock, unlock)
        ],
    )
    yield made(
        "8,192 locks of another",
        lambda group: [of(lock, group, range(8192)), of(code, group, range(8192), "two"), of(code, group, [0])],
    )


def _checks(code: RequestCode) -> Iterator[Attack]:
    def check(text: str) -> bytes:
        wanted = {"topic": ATTACKED, "subString": text, "expressionType": "SQL92", "subVersion": 1}
        return request(code, {}, dump({"clientId": "c", "group": "G", "subscriptionData": wanted}))

    for name, make in _EXPRESSIONS:
        yield Attack(
            name=f"20 {name} expressions in SQL",
            frames=lambda make=make: [check(make(next(_numbers))) for _ in range(20)],
            answer=OK if name in _RIGHT else REFUSED,
        )


def _settings(code: RequestCode) -> Iterator[Attack]:
    def of(make: Callable[[], bytes]) -> Callable[[], list[bytes]]:
        return lambda: [request(code, {}, make())]

    yield Attack(name="lines at their limit", frames=of(lambda: b"a=b\n" * (MAX_UPDATE // 4)))
    yield Attack(name="more lines than are read", call="copy", frames=of(lambda: b"a=b\n" * 4_000_000))
    yield Attack(name="a line of backslashes", frames=of(lambda: b"\\" * MAX_UPDATE))
    yield Attack(name="a key without an end", frames=of(lambda: b"a" * MAX_UPDATE))
    yield Attack(name="broken escapes", frames=of(lambda: b"a=\\uZZZZ\n" * (MAX_UPDATE // 9)))


def _texts(code: RequestCode) -> Iterator[Attack]:
    def of(**more: str) -> Callable[[], list[bytes]]:
        return lambda: [request(code, small_fields(code) | more)]

    yield Attack(name="500 keys", frames=lambda: [of(key=fresh("k"), value="v" * 1000)()[0] for _ in range(500)])
    yield Attack(name="500 namespaces", frames=lambda: [of(namespace=fresh("n"))()[0] for _ in range(500)])
    yield Attack(name="an empty namespace", frames=of(namespace=""))
    yield Attack(name="values of 1 MiB", frames=lambda: [of(key=fresh("k"), value="v" * _ROOM)()[0] for _ in range(8)])


def _offsets(code: RequestCode) -> Iterator[Attack]:
    def make() -> list[bytes]:
        fields = small_fields(code) | {"topic": ATTACKED}
        return [request(code, fields | {"queueId": str(n % 4), "commitOffset": str(n)}) for n in range(3_000)]

    yield Attack(name="3,000 commits", frames=make)


def _ends(code: RequestCode) -> Iterator[Attack]:
    fields = small_fields(code)

    def of(*ends: dict[str, str]) -> Callable[[], list[bytes]]:
        return lambda: [request(code, fields | end) for end in ends]

    places = [{"commitLogOffset": str(37 * n), "tranStateTableOffset": str(n)} for n in range(3_000)]
    yield Attack(name="3,000 ends", frames=of(*places))
    yield Attack(name="3,000 ends of one transaction", frames=of(*[places[0]] * 3_000))
    for name, place in (("below zero", -1), ("of the largest number", 2**63 - 1), ("of the smallest number", -(2**63))):
        yield Attack(name=f"offsets {name}", frames=of(dict.fromkeys(places[0], str(place))))
    ids = ("transactionId", "msgId", "producerGroup")
    yield Attack(name="names of 300 KiB", frames=of(dict.fromkeys(ids, "x" * (_ROOM // 4))))


_SPECIAL: dict[RequestCode, Callable[[RequestCode], Iterator[Attack]]] = {
    RequestCode.SEND_MESSAGE: _sends,
    RequestCode.SEND_MESSAGE_V2: _sends,
    RequestCode.SEND_BATCH_MESSAGE: _batches,
    RequestCode.RECALL_MESSAGE: _recalls,
    RequestCode.SEND_REPLY_MESSAGE: _replies,
    RequestCode.SEND_REPLY_MESSAGE_V2: _replies,
    RequestCode.REGISTER_BROKER: _registrations,
    RequestCode.UPDATE_AND_CREATE_TOPIC: _topics,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _groups,
    RequestCode.HEART_BEAT: _heartbeats,
    RequestCode.PULL_MESSAGE: _pulls,
    RequestCode.LOCK_BATCH_MQ: _locks,
    RequestCode.UNLOCK_BATCH_MQ: _locks,
    RequestCode.CHECK_CLIENT_CONFIG: _checks,
    RequestCode.LITE_PULL_MESSAGE: _pulls,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _resets,
    RequestCode.UPDATE_BROKER_CONFIG: _settings,
    RequestCode.UPDATE_NAMESRV_CONFIG: _settings,
    RequestCode.PUT_KV_CONFIG: _texts,
    RequestCode.UPDATE_CONSUMER_OFFSET: _offsets,
    RequestCode.END_TRANSACTION: _ends,
}
