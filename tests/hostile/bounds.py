"""Every bound on what one request may ask: a request at the bound, which is taken, and one beyond, which is refused.

The figures are those of the code. `test_bounds` finds the bounds that have no attack here, and tries those that several
requests reach together.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from random import Random

from rocketpy.wire.bodies import registration_steps
from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.json_dialect import _MAX_ODD_ESCAPES, MAX_DIGITS
from rocketpy.wire.limits import DEFAULT_LIMITS, REQUEST_LIMITS, SMALL_REQUEST_LIMITS
from rocketpy.wire.names import RETRY_PREFIX, STORED_NAME_MAX_LENGTH, TOPIC_MAX_LENGTH
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE
from rocketpy_broker_sim.broker.batch_items import MOST_ITEMS
from rocketpy_broker_sim.broker.filtering import MAX_EXPRESSION, MAX_TAGS
from rocketpy_broker_sim.broker.processors import client_manage, pages, pull
from rocketpy_broker_sim.broker.processors.admin_group import MOST_SETTINGS
from rocketpy_broker_sim.broker.processors.checks import MAX_QUEUES
from rocketpy_broker_sim.broker.processors.query import LONGEST_KEY
from rocketpy_broker_sim.broker.tables.attributes import MAX_CHANGES
from rocketpy_broker_sim.config import MAX_UPDATE, BrokerConfig
from rocketpy_broker_sim.namesrv import processor as namesrv
from tests.hostile.frames import header_text, raw, request
from tests.hostile.measure import CLOSED, HELD, Attack
from tests.hostile.samples import ATTACKED, item, small_body, small_fields
from tests.hostile.shapes import dump, fresh

_CONFIG = BrokerConfig()
_OK, _INVALID = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER
_ERROR, _ILLEGAL = ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL
_BROKER_ADDS = len(
    f"UNIQ_KEY\x01{'0' * 32}\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
)
"""Characters of the properties that a broker gives each message."""

_Make = Callable[[int], bytes | list[bytes]]


def bounds(code: RequestCode) -> Iterator[Attack]:
    """The attacks of a code at its bounds and one beyond."""
    make = _BOUNDS.get(code)
    if make is not None:
        yield from make(code)


def _pair(
    bound: str,
    most: int,
    what: str,
    make: _Make,
    *,
    beyond: int,
    at: int = _OK,
    call: str = "",
    inflates: int = 0,
) -> Iterator[Attack]:
    """At a bound and one beyond.

    Args:
        bound: its module or class and its name.
        most: what it is.
        what: what there is so much of, in words.
        make: the request with so much of it, or several of which the last one counts.
        beyond: the code of the answer beyond it.
        at: the code of the answer at it.
        call: the call into C over a body at its limit.
        inflates: bytes that it becomes.
    """

    def frames(number: int) -> Callable[[], list[bytes]]:
        def made() -> list[bytes]:
            found = make(number)
            return found if isinstance(found, list) else [found]

        return made

    for number, answer, is_beyond in ((most, at, False), (most + 1, beyond, True)):
        yield Attack(
            name=what.format(f"{number:,}"),
            frames=frames(number),
            call=call,
            inflates=inflates,
            answer=answer,
            bound=bound,
            is_beyond=is_beyond,
        )


# --- any frame -----------------------------------------------------------------------------------------------


def _frames(code: RequestCode) -> Iterator[Attack]:
    limits, fields = DEFAULT_LIMITS, small_fields(code)
    of = "WireLimits."

    def frame(size: int) -> bytes:
        header = header_text(code, fields).encode()
        return raw(header, bytes(size - 8 - len(header)))

    def header(size: int) -> bytes:
        text = header_text(code, fields)
        return raw((" " * (size - len(text)) + text).encode())

    def many(count: int) -> bytes:
        return request(code, fields | {f"f{number}": "x" for number in range(count - len(fields))})

    def deep(levels: int) -> bytes:
        nested = "[" * (levels - 1) + "]" * (levels - 1)
        return raw(f'{{"x":{nested},{header_text(code, fields)[1:]}'.encode())

    yield from _pair(of + "max_frame", limits.max_frame, "a frame of {} bytes", frame, beyond=CLOSED, call="copy")
    yield from _pair(of + "max_header", limits.max_header, "a header of {} bytes", header, beyond=CLOSED)
    yield from _pair(of + "max_ext_fields", limits.max_ext_fields, "{} fields", many, beyond=CLOSED)
    yield from _pair(of + "max_header_depth", limits.max_header_depth, "a header {} deep", deep, beyond=CLOSED)


# --- any JSON ------------------------------------------------------------------------------------------------


def _listed_json(code: RequestCode) -> Iterator[Attack]:
    """Of a body that lists things; it has a member that is passed over."""
    limits = REQUEST_LIMITS

    def of(text: bytes) -> bytes:
        return request(code, small_fields(code), b'{"topicConfigList":[],"x":' + text + b"}")

    around = len('{"topicConfigList":[],"x":""}')
    yield from _pair(
        "WireLimits.max_json_body",
        limits.max_json_body // 2,
        "{} bytes of JSON with characters beyond ASCII",
        lambda size: of(b'"' + "é".encode() + b"x" * (size - around - 2) + b'"'),
        beyond=_ERROR,
        call="json scan",
        inflates=limits.max_json_body,
    )
    yield from _pair(
        "WireLimits.max_body_members",
        limits.max_body_members,
        "{} members",
        # Up to the bound commas are counted, and everything when they are more.
        lambda count: of(b"[" + b"1," * (count - 2) + b"1]"),
        beyond=_ERROR,
    )
    yield from _pair(
        "WireLimits.max_body_depth",
        limits.max_body_depth,
        "JSON {} deep",
        lambda levels: of(b"[" * (levels - 1) + b"]" * (levels - 1)),
        beyond=_ERROR,
    )
    # In a short text there is no room for a number that takes long.
    yield from _pair(
        "json_dialect.MAX_DIGITS",
        MAX_DIGITS,
        "{} digits",
        lambda size: of(b" " * 4096 + b"9" * size),
        beyond=_ERROR,
    )
    yield from _pair(
        "json_dialect._MAX_ODD_ESCAPES",
        _MAX_ODD_ESCAPES,
        "{} escapes of Java",
        lambda count: of(b"'" + b"\\x41" * count + b"'"),
        beyond=_ERROR,
    )


def _small_json(code: RequestCode) -> Iterator[Attack]:
    """Of a body about one thing."""
    limits = SMALL_REQUEST_LIMITS

    def sized(size: int) -> bytes:
        body = small_body(code)
        return request(code, {}, b" " * (size - len(body)) + body)

    def many(count: int) -> bytes:
        body = small_body(code)[:-1]
        commas = count - 1 - body.count(b",") - 1
        return request(code, {}, body + b',"x":[' + b"1," * commas + b"1]}")

    yield from _pair(
        "WireLimits.max_json_body", limits.max_json_body, "{} bytes of JSON about one thing", sized, beyond=_ERROR
    )
    yield from _pair(
        "WireLimits.max_body_members", limits.max_body_members, "{} members about one thing", many, beyond=_ERROR
    )


# --- the broker ----------------------------------------------------------------------------------------------


def _heartbeats(code: RequestCode) -> Iterator[Attack]:
    def beat(client: str = "", **members: object) -> bytes:
        return request(code, {}, dump({"clientID": client or fresh("c"), **members}))

    def group(**members: object) -> dict[str, object]:
        return {
            "groupName": fresh("G"),
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        } | members

    def subscribed(**members: object) -> bytes:
        topic = {"topic": ATTACKED, "subString": "*"} | members
        return beat(consumerDataSet=[group(subscriptionDataSet=[topic])])

    groups = _CONFIG.max_groups_per_client
    yield from _pair(
        "client_manage._MAX_CLIENT_ID",
        client_manage._MAX_CLIENT_ID,
        "a client id of {} letters",
        lambda size: beat("c" * size, producerDataSet=[{"groupName": "P"}]),
        beyond=_INVALID,
    )
    yield from _pair(
        "BrokerConfig.max_groups_per_client",
        groups,
        "a client in {} groups",
        lambda count: beat(consumerDataSet=[group() for _ in range(count)]),
        beyond=_INVALID,
    )
    yield from _pair(
        "BrokerConfig.max_groups_per_client",
        groups,
        "a client in {} groups, one after the other",
        lambda count: [
            beat("one", consumerDataSet=[group() for _ in range(groups // 2)]),
            beat("one", consumerDataSet=[group() for _ in range(count - groups // 2)]),
        ],
        beyond=_ERROR,
    )
    yield from _pair(
        "BrokerConfig.max_groups_per_client",
        groups,
        "a producer in {} groups",
        lambda count: beat(producerDataSet=[{"groupName": fresh("P")} for _ in range(count)]),
        beyond=_INVALID,
    )
    yield from _pair(
        "client_manage.MOST_SUBSCRIPTIONS",
        client_manage.MOST_SUBSCRIPTIONS,
        "{} subscriptions",
        lambda count: beat(
            consumerDataSet=[
                group(subscriptionDataSet=[{"topic": fresh("T"), "subString": "*"} for _ in range(count)]),
            ]
        ),
        beyond=_INVALID,
    )
    yield from _pair(
        "filtering.MAX_EXPRESSION",
        MAX_EXPRESSION,
        "an expression of {} letters",
        lambda size: subscribed(subString="t" * size),
        beyond=_INVALID,
    )
    yield from _pair(
        "filtering.MAX_TAGS",
        MAX_TAGS,
        "{} tags",
        lambda count: subscribed(tagsSet=[fresh("t") for _ in range(count)]),
        beyond=_INVALID,
    )
    yield from _pair(
        "filtering.MAX_TAGS",
        MAX_TAGS,
        "{} hashes of tags",
        lambda count: subscribed(codeSet=list(range(count))),
        beyond=_INVALID,
    )
    yield from _pair(
        "names.STORED_NAME_MAX_LENGTH",
        STORED_NAME_MAX_LENGTH,
        "a subscription to a topic of {} letters",
        lambda size: subscribed(topic=RETRY_PREFIX + "T" * (size - len(RETRY_PREFIX))),
        beyond=_INVALID,
    )


def _pulls(code: RequestCode) -> Iterator[Attack]:
    fields, refused = small_fields(code), ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def of(**more: object) -> bytes:
        return request(code, fields | {"queueOffset": "0"} | {name: str(value) for name, value in more.items()})

    yield from _pair(
        "filtering.MAX_EXPRESSION",
        MAX_EXPRESSION,
        "an expression of {} letters",
        lambda size: of(subscription="t" * size),
        at=ResponseCode.PULL_RETRY_IMMEDIATELY,
        beyond=refused,
    )
    yield from _pair(
        "filtering.MAX_TAGS",
        MAX_TAGS,
        "{} tags",
        lambda count: of(subscription="||".join(f"t{number}" for number in range(count))),
        at=ResponseCode.PULL_RETRY_IMMEDIATELY,
        beyond=refused,
    )
    # More are given as that many.
    yield from _pair(
        "pull._MOST_MESSAGES", pull._MOST_MESSAGES, "{} messages wanted", lambda n: of(maxMsgNums=n), beyond=_OK
    )
    queues = 1000

    def held(count: int) -> list[bytes]:
        topic = fresh("Held")
        created = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues)}
        make = RequestCode.UPDATE_AND_CREATE_TOPIC
        more = {"topic": topic, "sysFlag": "6", "suspendTimeoutMillis": "25000"}
        pulls = (of(**more, consumerGroup=f"H{number // queues}", queueId=number % queues) for number in range(count))
        return [request(make, small_fields(make) | created), *pulls]

    if code == RequestCode.PULL_MESSAGE:
        yield from _pair(
            "BrokerConfig.max_held_pulls_per_connection",
            _CONFIG.max_held_pulls_per_connection,
            "{} pulls to be held",
            held,
            at=HELD,
            beyond=ResponseCode.PULL_NOT_FOUND,
        )


def _sends(code: RequestCode) -> Iterator[Attack]:
    name = "i" if code == RequestCode.SEND_MESSAGE_V2 else "properties"
    topic = "b" if code == RequestCode.SEND_MESSAGE_V2 else "topic"
    create = RequestCode.UPDATE_AND_CREATE_TOPIC

    def of(body: bytes = b"body", **more: str) -> bytes:
        return request(code, small_fields(code) | more, body)

    yield from _pair(
        "MessageStoreConfig.max_message_size",
        _CONFIG.store.max_message_size,
        "a message of {} bytes",
        lambda size: of(bytes(size)),
        beyond=_ILLEGAL,
    )
    yield from _pair(
        "properties.MAX_PROPERTIES_SIZE",
        MAX_PROPERTIES_SIZE,
        "properties of {} bytes",
        lambda size: of(**{name: "a\x01" + "x" * (size - _BROKER_ADDS - 3) + "\x02"}),
        beyond=_ILLEGAL,
    )
    yield from _pair(
        "names.TOPIC_MAX_LENGTH",
        TOPIC_MAX_LENGTH,
        "a message to a topic of {} letters",
        # The first message to a new topic waits for the name server.
        lambda size: [request(create, small_fields(create) | {"topic": "T" * size}), of(**{topic: "T" * size})],
        beyond=_INVALID,
    )


def _batches(code: RequestCode) -> Iterator[Attack]:
    one, fields = item(b"x"), small_fields(code)
    yield from _pair(
        "batch_items.MOST_ITEMS",
        MOST_ITEMS,
        "a batch of {} messages",
        lambda count: request(code, fields, one * count),
        beyond=_ILLEGAL,
    )
    yield from _pair(
        "MessageStoreConfig.max_message_size",
        _CONFIG.store.max_message_size,
        "a batch of {} bytes",
        lambda size: request(code, fields, one + item(bytes(size - len(one) - len(item(b""))))),
        beyond=_ILLEGAL,
    )


def _topics(code: RequestCode) -> Iterator[Attack]:
    fields = small_fields(code)

    def of(**more: str) -> bytes:
        return request(code, fields | {"topic": fresh("T")} | more)

    change = "+message.type=FIFO"
    yield from _pair(
        "checks.MAX_QUEUES",
        MAX_QUEUES,
        "a topic of {} queues",
        lambda count: of(readQueueNums=str(count), writeQueueNums=str(count)),
        beyond=_INVALID,
    )
    yield from _pair(
        "attributes.MAX_CHANGES",
        MAX_CHANGES,
        "{} characters of attributes",
        lambda size: of(attributes=change + "," * (size - len(change))),
        beyond=_INVALID,
    )
    yield from _pair(
        "names.TOPIC_MAX_LENGTH",
        TOPIC_MAX_LENGTH,
        "a topic of {} letters",
        lambda size: of(topic="T" * size),
        beyond=_INVALID,
    )


def _topic_lists(code: RequestCode) -> Iterator[Attack]:
    def of(**members: object) -> bytes:
        return request(code, {}, dump({"topicConfigList": [{"topicName": fresh("T")} | members]}))

    yield from _pair(
        "checks.MAX_QUEUES",
        MAX_QUEUES,
        "a topic of {} queues",
        lambda count: of(readQueueNums=count, writeQueueNums=count),
        beyond=_INVALID,
    )
    yield from _listed_json(code)


def _groups(code: RequestCode) -> Iterator[Attack]:
    is_list = code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST

    def of(**members: object) -> bytes:
        group = {"groupName": fresh("G")} | members
        return request(code, {}, dump({"groupConfigList": [group]} if is_list else group))

    def settings(size: int) -> bytes:
        name, topic = fresh("G"), {"topic": "T", "expression": ""}
        group = {"groupName": name, "subscriptionDataSet": [topic]}
        topic["expression"] = "x" * (size - len(SubscriptionGroupConfig.decode(dump(group)).encode()))
        return of(**group)

    yield from _pair(
        "checks.MAX_QUEUES", MAX_QUEUES, "{} retry queues", lambda count: of(retryQueueNums=count), beyond=_INVALID
    )
    yield from _pair("admin_group.MOST_SETTINGS", MOST_SETTINGS, "settings of {} bytes", settings, beyond=_INVALID)
    yield from _pair(
        "names.STORED_NAME_MAX_LENGTH",
        STORED_NAME_MAX_LENGTH,
        "a group of {} letters",
        lambda size: of(groupName="G" * size),
        beyond=_INVALID,
    )
    if not is_list:
        yield from _small_json(code)


def _pages(code: RequestCode) -> Iterator[Attack]:
    is_topics = code == RequestCode.GET_ALL_TOPIC_CONFIG
    count, start = ("maxTopicNum", "topicSeq") if is_topics else ("maxGroupNum", "groupSeq")
    version = dump({"counter": 1, "stateVersion": 0, "timestamp": 1}).decode()

    def of(number: int, text: str) -> bytes:
        return request(code, {start: "0", count: str(number), "dataVersion": text})

    # More are given as that many, and a state that is longer is none of this broker's.
    yield from _pair("pages.MOST_ENTRIES", pages.MOST_ENTRIES, "a page of {}", lambda n: of(n, version), beyond=_OK)
    yield from _pair(
        "pages._LONGEST_VERSION",
        pages._LONGEST_VERSION,
        "a page of a state in {} characters",
        lambda size: of(1, " " * (size - len(version)) + version),
        beyond=_OK,
    )


def _queries(code: RequestCode) -> Iterator[Attack]:
    # Nobody can have sent such a key: beyond the bound it is not looked for.
    nothing = ResponseCode.QUERY_NOT_FOUND
    yield from _pair(
        "query.LONGEST_KEY",
        LONGEST_KEY,
        "a key of {} letters",
        lambda size: request(code, small_fields(code) | {"key": "k" * size}),
        at=nothing,
        beyond=nothing,
    )


def _settings(code: RequestCode) -> Iterator[Attack]:
    body = small_body(code)
    yield from _pair(
        "updates.MAX_UPDATE",
        MAX_UPDATE,
        "{} bytes of settings",
        lambda size: request(code, {}, body + b"#" * (size - len(body))),
        beyond=_INVALID,
    )


# --- the name server -----------------------------------------------------------------------------------------


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
    yield from _pair(
        "processor.MAX_ADDRESS", most, "an address of {} letters", lambda n: of(brokerAddr=address(n)), beyond=_ERROR
    )
    yield from _pair(
        "processor.MAX_ADDRESS",
        most,
        "an address for replicas of {} letters",
        lambda size: of(haServerAddr=address(size)),
        beyond=_ERROR,
    )
    yield from _pair(
        "processor.MAX_ZONE",
        namesrv.MAX_ZONE,
        "a zone of {} letters",
        lambda size: of(__ZONE_NAME="z" * size),
        beyond=_ERROR,
    )
    # More are left out.
    yield from _pair(
        "processor.MAX_FILTER_SERVERS",
        servers,
        "{} filter servers",
        lambda count: topics({}, filterServerList=[f"10.0.0.1:{number}" for number in range(count)]),
        beyond=_OK,
    )
    yield from _pair(
        "names.STORED_NAME_MAX_LENGTH",
        STORED_NAME_MAX_LENGTH,
        "a topic of {} letters",
        lambda size: topics(
            {name: _topic(name, "") for name in ("T", "U", RETRY_PREFIX + "T" * (size - len(RETRY_PREFIX)))}
        ),
        beyond=_OK,
    )
    yield from _pair(
        "registration_steps._MOST_OF_ONE",
        registration_steps._MOST_OF_ONE,
        "{} characters of one topic",
        sized,
        beyond=_OK,
    )
    yield from _pair(
        "registration_steps.MOST_INFLATED",
        registration_steps.MOST_INFLATED,
        "{} bytes, compressed",
        lambda size: of(_packed(size), compressed="true"),
        beyond=_ERROR,
    )
    # Java's quotes: what no broker of Apache's sends is read slowly.
    yield from _pair(
        "registration_steps._MOST_OF_DIALECT",
        registration_steps._MOST_OF_DIALECT,
        "{} bytes as only fastjson reads them",
        lambda size: of(_padded(b"{'topicConfigSerializeWrapper':{'topicConfigTable':{}}@}", size)),
        beyond=_ERROR,
    )
    # Brackets, numbers and the commas between them; two brackets for a number make the sum even.
    yield from _pair(
        "registration_steps._MOST_TOKENS",
        registration_steps._MOST_TOKENS,
        "{} tokens that are passed over",
        lambda count: of(b'{"x":[' + b"1," * ((count - 2) // 2 - 1 + count % 2) + (b"1]}" if count % 2 else b"[]]}")),
        beyond=_ERROR,
    )


def _topic(name: str, text: str) -> dict[str, object]:
    return {"topicName": name, "readQueueNums": 4, "x": text}


def _padded(around: bytes, size: int) -> bytes:
    """Blanks where it has an @, so that there are so many bytes."""
    head, _, tail = around.partition(b"@")
    return head + b" " * (size - len(head) - len(tail)) + tail


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

    yield from _pair(
        "processor.MAX_ROUTE_BODY",
        namesrv.MAX_ROUTE_BODY,
        "a route of {} bytes",
        lambda size: of(_padded(b"@" + small_body(code), size)),
        beyond=_INVALID,
    )
    yield from _pair(
        "names.TOPIC_MAX_LENGTH",
        TOPIC_MAX_LENGTH,
        "a topic of {} letters",
        lambda size: of(topic="T" * size),
        beyond=_INVALID,
    )


def _versions(code: RequestCode) -> Iterator[Attack]:
    yield from _pair(
        "processor.MAX_VERSION_BODY",
        namesrv.MAX_VERSION_BODY,
        "a version of {} bytes",
        lambda size: request(code, small_fields(code), _padded(b"@" + small_body(code), size)),
        beyond=_ERROR,
    )


_BOUNDS: dict[RequestCode, Callable[[RequestCode], Iterator[Attack]]] = {
    RequestCode.GET_MAX_OFFSET: _frames,
    RequestCode.BROKER_HEARTBEAT: _frames,
    RequestCode.HEART_BEAT: _heartbeats,
    RequestCode.PULL_MESSAGE: _pulls,
    RequestCode.LITE_PULL_MESSAGE: _pulls,
    RequestCode.SEND_MESSAGE: _sends,
    RequestCode.SEND_MESSAGE_V2: _sends,
    RequestCode.SEND_BATCH_MESSAGE: _batches,
    RequestCode.UPDATE_AND_CREATE_TOPIC: _topics,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _topic_lists,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _groups,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _groups,
    RequestCode.GET_ALL_TOPIC_CONFIG: _pages,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _pages,
    RequestCode.QUERY_MESSAGE: _queries,
    RequestCode.CHECK_CLIENT_CONFIG: _small_json,
    RequestCode.UPDATE_BROKER_CONFIG: _settings,
    RequestCode.UPDATE_NAMESRV_CONFIG: _settings,
    RequestCode.REGISTER_BROKER: _registrations,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: _routes,
    RequestCode.QUERY_DATA_VERSION: _versions,
}
