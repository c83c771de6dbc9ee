"""Bounds on what one request may ask of a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.names import RETRY_PREFIX, STORED_NAME_MAX_LENGTH, TOPIC_MAX_LENGTH
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE
from rocketpy_broker_sim.broker.filters.filtering import MAX_EXPRESSION, MAX_TAGS
from rocketpy_broker_sim.broker.processors import checks, client_manage, pages, pull
from rocketpy_broker_sim.broker.processors.admin_group import MOST_GROUPS, MOST_SETTINGS
from rocketpy_broker_sim.broker.processors.checks import MAX_QUEUES
from rocketpy_broker_sim.broker.processors.query import LONGEST_KEY
from rocketpy_broker_sim.broker.putting.batch_items import MOST_ITEMS
from rocketpy_broker_sim.broker.tables.attributes import MAX_CHANGES
from rocketpy_broker_sim.config import BrokerConfig
from tests.hostile.bound_pairs import (
    ERROR,
    ILLEGAL,
    INVALID,
    OK,
    frames_of,
    listed_json,
    pair,
    settings,
    small_json,
)
from tests.hostile.frames import request
from tests.hostile.measure import HELD, Attack
from tests.hostile.samples import ATTACKED, item, small_fields
from tests.hostile.shapes import dump, fresh

CONFIG = BrokerConfig()
_BROKER_ADDS = len(
    f"UNIQ_KEY\x01{'0' * 32}\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
)
"""Characters of the properties that a broker gives each message."""


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

    groups = CONFIG.max_groups_per_client
    yield from pair(
        "checks.MAX_CLIENT_ID",
        checks.MAX_CLIENT_ID,
        "a client id of {} letters",
        lambda size: beat("c" * size, producerDataSet=[{"groupName": "P"}]),
        beyond=INVALID,
    )
    yield from pair(
        "BrokerConfig.max_groups_per_client",
        groups,
        "a client in {} groups",
        lambda count: beat(consumerDataSet=[group() for _ in range(count)]),
        beyond=INVALID,
    )
    yield from pair(
        "BrokerConfig.max_groups_per_client",
        groups,
        "a client in {} groups, one after the other",
        lambda count: [
            beat("one", consumerDataSet=[group() for _ in range(groups // 2)]),
            beat("one", consumerDataSet=[group() for _ in range(count - groups // 2)]),
        ],
        beyond=ERROR,
    )
    yield from pair(
        "BrokerConfig.max_groups_per_client",
        groups,
        "a producer in {} groups",
        lambda count: beat(producerDataSet=[{"groupName": fresh("P")} for _ in range(count)]),
        beyond=INVALID,
    )
    yield from pair(
        "client_manage.MOST_SUBSCRIPTIONS",
        client_manage.MOST_SUBSCRIPTIONS,
        "{} subscriptions",
        lambda count: beat(
            consumerDataSet=[
                group(subscriptionDataSet=[{"topic": fresh("T"), "subString": "*"} for _ in range(count)]),
            ]
        ),
        beyond=INVALID,
    )
    yield from pair(
        "filtering.MAX_EXPRESSION",
        MAX_EXPRESSION,
        "an expression of {} letters",
        lambda size: subscribed(subString="t" * size),
        beyond=INVALID,
    )
    yield from pair(
        "filtering.MAX_TAGS",
        MAX_TAGS,
        "{} tags",
        lambda count: subscribed(tagsSet=[fresh("t") for _ in range(count)]),
        beyond=INVALID,
    )
    yield from pair(
        "filtering.MAX_TAGS",
        MAX_TAGS,
        "{} hashes of tags",
        lambda count: subscribed(codeSet=list(range(count))),
        beyond=INVALID,
    )
    yield from pair(
        "names.STORED_NAME_MAX_LENGTH",
        STORED_NAME_MAX_LENGTH,
        "a subscription to a topic of {} letters",
        lambda size: subscribed(topic=RETRY_PREFIX + "T" * (size - len(RETRY_PREFIX))),
        beyond=INVALID,
    )


def _pulls(code: RequestCode) -> Iterator[Attack]:
    fields, refused = small_fields(code), ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def of(**more: object) -> bytes:
        return request(code, fields | {"queueOffset": "0"} | {name: str(value) for name, value in more.items()})

    yield from pair(
        "filtering.MAX_EXPRESSION",
        MAX_EXPRESSION,
        "an expression of {} letters",
        lambda size: of(subscription="t" * size),
        at=ResponseCode.PULL_RETRY_IMMEDIATELY,
        beyond=refused,
    )
    yield from pair(
        "filtering.MAX_TAGS",
        MAX_TAGS,
        "{} tags",
        lambda count: of(subscription="||".join(f"t{number}" for number in range(count))),
        at=ResponseCode.PULL_RETRY_IMMEDIATELY,
        beyond=refused,
    )
    # More are given as that many.
    yield from pair(
        "pull._MOST_MESSAGES", pull._MOST_MESSAGES, "{} messages wanted", lambda n: of(maxMsgNums=n), beyond=OK
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
        yield from pair(
            "BrokerConfig.max_held_pulls_per_connection",
            CONFIG.max_held_pulls_per_connection,
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

    yield from pair(
        "MessageStoreConfig.max_message_size",
        CONFIG.store.max_message_size,
        "a message of {} bytes",
        lambda size: of(bytes(size)),
        beyond=ILLEGAL,
    )
    yield from pair(
        "properties.MAX_PROPERTIES_SIZE",
        MAX_PROPERTIES_SIZE,
        "properties of {} bytes",
        lambda size: of(**{name: "a\x01" + "x" * (size - _BROKER_ADDS - 3) + "\x02"}),
        beyond=ILLEGAL,
    )
    yield from pair(
        "names.TOPIC_MAX_LENGTH",
        TOPIC_MAX_LENGTH,
        "a message to a topic of {} letters",
        # The first message to a new topic waits for the name server.
        lambda size: [request(create, small_fields(create) | {"topic": "T" * size}), of(**{topic: "T" * size})],
        beyond=INVALID,
    )


def _batches(code: RequestCode) -> Iterator[Attack]:
    one, fields = item(b"x"), small_fields(code)
    yield from pair(
        "batch_items.MOST_ITEMS",
        MOST_ITEMS,
        "a batch of {} messages",
        lambda count: request(code, fields, one * count),
        beyond=ILLEGAL,
    )
    yield from pair(
        "MessageStoreConfig.max_message_size",
        CONFIG.store.max_message_size,
        "a batch of {} bytes",
        lambda size: request(code, fields, one + item(bytes(size - len(one) - len(item(b""))))),
        beyond=ILLEGAL,
    )


def _topics(code: RequestCode) -> Iterator[Attack]:
    fields = small_fields(code)

    def of(**more: str) -> bytes:
        return request(code, fields | {"topic": fresh("T")} | more)

    change = "+message.type=FIFO"
    yield from pair(
        "checks.MAX_QUEUES",
        MAX_QUEUES,
        "a topic of {} queues",
        lambda count: of(readQueueNums=str(count), writeQueueNums=str(count)),
        beyond=INVALID,
    )
    yield from pair(
        "attributes.MAX_CHANGES",
        MAX_CHANGES,
        "{} characters of attributes",
        lambda size: of(attributes=change + "," * (size - len(change))),
        beyond=INVALID,
    )
    yield from pair(
        "names.TOPIC_MAX_LENGTH",
        TOPIC_MAX_LENGTH,
        "a topic of {} letters",
        lambda size: of(topic="T" * size),
        beyond=INVALID,
    )


def _topic_lists(code: RequestCode) -> Iterator[Attack]:
    def of(**members: object) -> bytes:
        return request(code, {}, dump({"topicConfigList": [{"topicName": fresh("T")} | members]}))

    yield from pair(
        "checks.MAX_QUEUES",
        MAX_QUEUES,
        "a topic of {} queues",
        lambda count: of(readQueueNums=count, writeQueueNums=count),
        beyond=INVALID,
    )
    yield from listed_json(code)


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

    yield from pair(
        "checks.MAX_QUEUES", MAX_QUEUES, "{} retry queues", lambda count: of(retryQueueNums=count), beyond=INVALID
    )
    yield from pair("admin_group.MOST_SETTINGS", MOST_SETTINGS, "settings of {} bytes", settings, beyond=INVALID)
    yield from pair(
        "names.STORED_NAME_MAX_LENGTH",
        STORED_NAME_MAX_LENGTH,
        "a group of {} letters",
        lambda size: of(groupName="G" * size),
        beyond=INVALID,
    )
    if is_list:
        yield from pair(
            "admin_group.MOST_GROUPS",
            MOST_GROUPS,
            "{} groups",
            lambda count: request(
                code, {}, dump({"groupConfigList": [{"groupName": fresh("G")} for _ in range(count)]})
            ),
            beyond=INVALID,
        )
    else:
        yield from small_json(code)


def _pages(code: RequestCode) -> Iterator[Attack]:
    is_topics = code == RequestCode.GET_ALL_TOPIC_CONFIG
    count, start = ("maxTopicNum", "topicSeq") if is_topics else ("maxGroupNum", "groupSeq")
    version = dump({"counter": 1, "stateVersion": 0, "timestamp": 1}).decode()

    def of(number: int, text: str) -> bytes:
        return request(code, {start: "0", count: str(number), "dataVersion": text})

    # More are given as that many, and a state that is longer is none of this broker's.
    yield from pair("pages.MOST_ENTRIES", pages.MOST_ENTRIES, "a page of {}", lambda n: of(n, version), beyond=OK)
    yield from pair(
        "pages._LONGEST_VERSION",
        pages._LONGEST_VERSION,
        "a page of a state in {} characters",
        lambda size: of(1, " " * (size - len(version)) + version),
        beyond=OK,
    )


def _queries(code: RequestCode) -> Iterator[Attack]:
    # Nobody can have sent such a key: beyond the bound it is not looked for.
    nothing = ResponseCode.QUERY_NOT_FOUND
    yield from pair(
        "query.LONGEST_KEY",
        LONGEST_KEY,
        "a key of {} letters",
        lambda size: request(code, small_fields(code) | {"key": "k" * size}),
        at=nothing,
        beyond=nothing,
    )


BOUNDS: dict[RequestCode, Callable[[RequestCode], Iterator[Attack]]] = {
    RequestCode.GET_MAX_OFFSET: frames_of,
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
    RequestCode.CHECK_CLIENT_CONFIG: small_json,
    RequestCode.UPDATE_BROKER_CONFIG: settings,
}
