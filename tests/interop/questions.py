"""Raw requests, good and bad, that a broker of ours has to answer as Apache's does.

Each stands alone: it asks about what `prepare` made, or makes something of its own. Not here: how answers are compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.interop import probe

if TYPE_CHECKING:
    from collections.abc import Mapping

SEND, SEND_V2, SEND_BATCH, PULL, LITE_PULL = 10, 310, 320, 11, 361
QUERY_OFFSET, UPDATE_OFFSET = 14, 15
SEARCH, MAX, MIN, EARLIEST = 29, 30, 31, 32
HEARTBEAT, UNREGISTER, SEND_BACK, CONSUMERS, CHECK_CLIENT = 34, 35, 36, 38, 46
CREATE_TOPIC, DELETE_TOPIC, GET_TOPIC = 17, 215, 351
CREATE_GROUP, DELETE_GROUP, GET_GROUP, FORBID = 200, 207, 352, 353
UPDATE_CONFIG = 25
TOPIC_STATS, PRODUCERS, STATISTIC = 202, 204, 315
WHO_CONSUMES, TOPICS_OF, SUBSCRIPTION, TIME_SPAN = 300, 343, 345, 303
ALL_OFFSETS, CORRECTION, CLONE, ENTRIES, SYSTEM_TOPICS = 43, 308, 314, 321, 305
SET_MODE, ALL_MODES = 401, 402
REPLICATION, RESET_FLUSHED, EPOCHS = 907, 908, 1007
CREATE_USER, LIST_USERS, GET_ACL = 3001, 3005, 3009

ASKED, TOLD, EMPTY, UNREADABLE = "Same-asked", "Same-told", "Same-empty", "Same-unreadable"
"""Topics: one with messages that stays as it is, one to send to, one without messages, one that may not be read."""
GROUP = "same-group"
UNIQUE = "0A" * 16


@dataclass(frozen=True)
class Question:
    """One request."""

    name: str
    code: int
    fields: Mapping[str, object] = field(default_factory=dict)
    body: bytes = b""


def prepare(broker: str) -> None:
    """Make what the questions are about."""
    for name in (ASKED, TOLD, EMPTY, UNREADABLE):
        probe.create_topic(broker, name, queues=2)
    for number in range(3):
        tag = ("red", "green")[number % 2]
        sent = probe.call(
            broker, SEND_V2, message(ASKED, i=f"TAGS\x01{tag}\x02UNIQ_KEY\x01{UNIQUE}\x02"), b"body-%d" % number
        )
        assert sent.code == 0
    assert probe.call(broker, CREATE_TOPIC, topic(UNREADABLE, perm=2)).code == 0
    assert probe.call(broker, CREATE_GROUP, {}, group(GROUP)).code == 0
    assert probe.call(broker, UPDATE_OFFSET, {**QUEUE, "commitOffset": 2}).code == 0


# --- parts of requests ---------------------------------------------------------------------------------

QUEUE: dict[str, object] = {"consumerGroup": GROUP, "topic": ASKED, "queueId": 0}


def without(fields: Mapping[str, object], name: str) -> dict[str, object]:
    """The fields but one."""
    return {key: value for key, value in fields.items() if key != name}


def message(topic: str, queue_id: object = 0, **others: object) -> dict[str, object]:
    """The header of SEND_MESSAGE_V2, in its one-letter names."""
    properties = f"TAGS\x01red\x02KEYS\x01key\x02UNIQ_KEY\x01{UNIQUE}\x02WAIT\x01true\x02"
    fields: dict[str, object] = {"a": "same-producer", "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 0}
    fields |= {"g": 1_700_000_000_000, "h": 0, "i": properties, "j": 0, "k": "false", "m": "false", "n": "broker-a"}
    return fields | others


LONG = {"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId"}
LONG |= {"f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes"}
LONG |= {"k": "unitMode", "m": "batch", "n": "bname"}


def pull(topic: str = ASKED, **others: object) -> dict[str, object]:
    """A pull that brings its subscription and does not wait."""
    fields: dict[str, object] = {"consumerGroup": GROUP, "topic": topic, "queueId": 0, "queueOffset": 0}
    fields |= {"maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0}
    return fields | {"subscription": "*", "expressionType": "TAG"} | others


def topic(name: str, **others: object) -> dict[str, object]:
    """The header of UPDATE_AND_CREATE_TOPIC."""
    fields: dict[str, object] = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2}
    return fields | {"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"} | others


def group(name: str) -> bytes:
    """The body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
    return json.dumps({"groupName": name, "retryMaxTimes": 3, "retryQueueNums": 1}).encode()


def mode(topic: str) -> bytes:
    return json.dumps({"topic": topic, "consumerGroup": GROUP, "mode": "PULL", "popShareQueueNum": 0}).encode()


def heartbeat(**others: object) -> bytes:
    """A client with one consumer group."""
    subscription = {"topic": ASKED, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1}
    consumer = {
        "groupName": "same-beating",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [{**subscription, "expressionType": "TAG", "classFilterMode": False}],
        "unitMode": False,
    }
    data = {"clientID": "same@1", "producerDataSet": [{"groupName": "same-producer"}], "consumerDataSet": [consumer]}
    return json.dumps({**data, "heartbeatFingerprint": 0, "withoutSub": False, **others}).encode()


def send_back(**others: object) -> dict[str, object]:
    """The header of CONSUMER_SEND_MSG_BACK."""
    fields: dict[str, object] = {"offset": 999_999_999, "group": GROUP, "delayLevel": 0, "originMsgId": "x"}
    return fields | {"originTopic": ASKED, "unitMode": "false", "maxReconsumeTimes": 16} | others


# --- the questions -------------------------------------------------------------------------------------

SENDS = [
    Question("send", SEND_V2, message(TOLD), b"x"),
    Question("send in long names", SEND, {LONG[key]: value for key, value in message(TOLD).items()}, b"x"),
    Question("send without properties", SEND_V2, without(message(TOLD), "i"), b"x"),
    Question("send to any queue", SEND_V2, message("Same-one", -1, d=1), b"x"),
    Question("send to a topic that is made by it", SEND_V2, message("Same-auto"), b"x"),
    Question("send to the default topic", SEND_V2, message("TBW102"), b"x"),
    Question("send to a retry topic", SEND_V2, message("%RETRY%same-other"), b"x"),
    Question("send with a delay level", SEND_V2, message(TOLD, i=f"DELAY\x0117\x02UNIQ_KEY\x01{UNIQUE}\x02"), b"x"),
    Question(
        "send with a delay level too high", SEND_V2, message(TOLD, i=f"DELAY\x0199\x02UNIQ_KEY\x01{UNIQUE}\x02"), b"x"
    ),
    Question("send to a queue that is none", SEND_V2, message(TOLD, 7), b"x"),
    Question("send to a queue that is no number", SEND_V2, message(TOLD, "two"), b"x"),
    Question("send without a queue", SEND_V2, without(message(TOLD), "e"), b"x"),
    Question("send without a topic", SEND_V2, without(message(TOLD), "b"), b"x"),
    Question("send to an illegal topic", SEND_V2, message("Sa me!"), b"x"),
    Question("send to a topic too long", SEND_V2, message("T" * 128), b"x"),
    Question("send where nothing is made", SEND_V2, message("Same-nothing", c="Same-no-default"), b"x"),
    Question("send properties too long", SEND_V2, message(TOLD, i=f"name\x01{'v' * 40_000}\x02"), b"x"),
    Question("send a body too large", SEND_V2, message(TOLD), bytes(4 * 1024 * 1024 + 1)),
    *(
        Question(f"send to {name}", SEND_V2, message(name), b"x")
        for name in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
    ),
    *(
        Question(f"send to {name}", SEND_V2, message(name), b"x")
        for name in ("TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT")
    ),
    Question("send back what is not there", SEND_BACK, send_back()),
    Question("send back without a group", SEND_BACK, without(send_back(), "group")),
]

PULLS = [
    Question("pull", PULL, pull()),
    Question("pull as a lite consumer", LITE_PULL, pull()),
    Question("pull a tag", PULL, pull(subscription="green")),
    Question("pull two tags", PULL, pull(subscription="red || green")),
    Question("pull one message", PULL, pull(maxMsgNums=1)),
    Question("pull nothing", PULL, pull(maxMsgNums=0)),
    Question("pull without an expression", PULL, without(pull(), "subscription")),
    Question("pull without a type of expression", PULL, without(pull(), "expressionType")),
    Question("pull a tag that nothing has", PULL, pull(subscription="blue")),
    Question("pull at the end", PULL, pull(queueOffset=3)),
    Question("pull behind the end", PULL, pull(queueOffset=4)),
    Question("pull far behind the end", PULL, pull(queueOffset=3_000)),
    Question("pull before the beginning", PULL, pull(queueOffset=-5)),
    Question("pull an empty queue", PULL, pull(EMPTY)),
    Question("pull an empty queue in its middle", PULL, pull(EMPTY, queueOffset=7)),
    Question("pull an empty queue with patience", PULL, pull(EMPTY, sysFlag=6, suspendTimeoutMillis=50)),
    Question("pull an unknown topic", PULL, pull("Same-unknown")),
    Question("pull a topic that may not be read", PULL, pull(UNREADABLE)),
    Question("pull a queue that is none", PULL, pull(queueId=9)),
    Question("pull a negative queue", PULL, pull(queueId=-1)),
    Question("pull with a subscription nobody registered", PULL, pull(sysFlag=0)),
    Question("pull for an illegal group", PULL, pull(consumerGroup="a b")),
    Question("pull without an offset", PULL, without(pull(), "queueOffset")),
]

OFFSETS = [
    Question("the offset of a group", QUERY_OFFSET, QUEUE),
    Question("the offset of a new group", QUERY_OFFSET, {**QUEUE, "consumerGroup": "same-new"}),
    Question("the same, not zero", QUERY_OFFSET, {**QUEUE, "consumerGroup": "same-new", "setZeroIfNotFound": "false"}),
    Question("the offset of a new group, empty queue", QUERY_OFFSET, {**QUEUE, "topic": EMPTY}),
    Question("the offset in an unknown topic", QUERY_OFFSET, {**QUEUE, "topic": "Same-unknown"}),
    Question("the offset in a queue that is none", QUERY_OFFSET, {**QUEUE, "queueId": 77}),
    Question("commit", UPDATE_OFFSET, {**QUEUE, "queueId": 1, "commitOffset": 0}),
    Question("commit behind the end", UPDATE_OFFSET, {**QUEUE, "topic": TOLD, "commitOffset": 100_000}),
    Question("commit for an unknown group", UPDATE_OFFSET, {**QUEUE, "consumerGroup": "same-no", "commitOffset": 1}),
    Question("commit in an unknown topic", UPDATE_OFFSET, {**QUEUE, "topic": "Same-no-topic", "commitOffset": 1}),
    Question("commit nothing", UPDATE_OFFSET, QUEUE),
    *(
        Question(f"{name} of {what}", code, {"topic": topic, "queueId": queue_id})
        for name, code in (("max offset", MAX), ("min offset", MIN), ("earliest time", EARLIEST))
        for what, topic, queue_id in (
            ("a queue", ASKED, 0),
            ("an empty queue", EMPTY, 0),
            ("an unknown topic", "Same-unknown", 0),
            ("a queue that is none", ASKED, 9),
            ("a negative queue", ASKED, -1),
        )
    ),
    Question("max offset without a queue", MAX, {"topic": ASKED}),
    *(
        Question(
            f"offset at {time}{' ' * bool(boundary)}{boundary} in {topic}",
            SEARCH,
            {"topic": topic, "queueId": 0} | {"timestamp": time} | ({"boundaryType": boundary} if boundary else {}),
        )
        for time in (-1, 0, 9_999_999_999_999)
        for topic in (ASKED, EMPTY)
        for boundary in ("", "LOWER", "UPPER")
    ),
    Question("offset at no time", SEARCH, {"topic": ASKED, "queueId": 0}),
]

CLIENTS = [
    Question("a heartbeat", HEARTBEAT, {}, heartbeat()),
    Question("a heartbeat of the second kind", HEARTBEAT, {}, heartbeat(heartbeatFingerprint=12345)),
    Question("a heartbeat without subscriptions", HEARTBEAT, {}, heartbeat(heartbeatFingerprint=5, withoutSub=True)),
    Question("a heartbeat of a producer", HEARTBEAT, {}, heartbeat(consumerDataSet=[])),
    Question("a heartbeat that is no JSON", HEARTBEAT, {}, b"{{{"),
    Question("a heartbeat of nobody", HEARTBEAT),
    Question("goodbye", UNREGISTER, {"clientID": "same@1", "producerGroup": "same-producer"}),
    Question("members of an unknown group", CONSUMERS, {"consumerGroup": "same-unknown"}),
    Question("members of no group", CONSUMERS),
    Question("an unknown request", 7777),
    Question("a request with the code of success", 0),
]

ADMIN = [
    Question("create a topic", CREATE_TOPIC, topic("Same-made")),
    Question("create a topic with an attribute", CREATE_TOPIC, topic("Same-fifo", attributes="+message.type=FIFO")),
    Question("create a topic without queues", CREATE_TOPIC, topic("Same-none", readQueueNums=0, writeQueueNums=0)),
    Question("create a topic without permission", CREATE_TOPIC, topic("Same-closed", perm=0)),
    Question("create a topic with a bad name", CREATE_TOPIC, topic("a b")),
    Question("create a topic with a long name", CREATE_TOPIC, topic("a" * 128)),
    Question("create a topic of the system", CREATE_TOPIC, topic("SCHEDULE_TOPIC_XXXX")),
    Question("create a topic with its name only", CREATE_TOPIC, {"topic": "Same-bare"}),
    Question("look at a topic", GET_TOPIC, {"topic": ASKED}),
    Question("look at an unknown topic", GET_TOPIC, {"topic": "Same-unknown"}),
    Question("delete an unknown topic", DELETE_TOPIC, {"topic": "Same-unknown"}),
    Question("delete a topic of the system", DELETE_TOPIC, {"topic": "TBW102"}),
    Question("delete a topic without a name", DELETE_TOPIC, {"topic": ""}),
    Question("create a group", CREATE_GROUP, {}, group("same-made")),
    Question("create no group", CREATE_GROUP),
    Question("look at a group", GET_GROUP, {"group": GROUP}),
    Question("look at a group that is made by it", GET_GROUP, {"group": "same-seen"}),
    Question("forbid a group", FORBID, {"group": GROUP, "topic": TOLD, "readable": "false"}),
    Question("delete an unknown group", DELETE_GROUP, {"groupName": "same-unknown"}),
]

ENTRY: dict[str, object] = {"topic": ASKED, "queueId": 0, "index": 0, "count": 2}

LOOKS = [
    Question("the queues of a topic", TOPIC_STATS, {"topic": ASKED}),
    Question("the queues of a topic without messages", TOPIC_STATS, {"topic": EMPTY}),
    Question("the queues of an unknown topic", TOPIC_STATS, {"topic": "Same-unknown"}),
    Question("producers of an unknown group", PRODUCERS, {"producerGroup": "same-nobody"}),
    Question("a statistic of a topic", STATISTIC, {"statsName": "TOPIC_PUT_NUMS", "statsKey": ASKED}),
    Question("the size of what came", STATISTIC, {"statsName": "TOPIC_PUT_SIZE", "statsKey": ASKED}),
    Question("a statistic of the broker", STATISTIC, {"statsName": "BROKER_PUT_NUMS", "statsKey": "DefaultCluster"}),
    Question("a statistic of nothing", STATISTIC, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "Same-unknown"}),
    Question("an unknown statistic", STATISTIC, {"statsName": "NO_SUCH", "statsKey": ASKED}),
    Question("who consumes a topic", WHO_CONSUMES, {"topic": ASKED}),
    Question("who consumes an unknown topic", WHO_CONSUMES, {"topic": "Same-unknown"}),
    Question("what a group consumes", TOPICS_OF, {"group": GROUP}),
    Question("what an unknown group consumes", TOPICS_OF, {"group": "same-unknown"}),
    Question("a subscription", SUBSCRIPTION, {"group": "same-unknown", "topic": ASKED}),
    Question("times of a group", TIME_SPAN, {"group": GROUP, "topic": ASKED}),
    Question("times in an unknown topic", TIME_SPAN, {"group": GROUP, "topic": "Same-unknown"}),
    Question("offsets of all groups", ALL_OFFSETS),
    Question("the lowest offsets", CORRECTION, {"topic": ASKED, "compareGroup": "same-nobody"}),
    Question("copy offsets", CLONE, {"srcGroup": GROUP, "destGroup": "same-copy", "topic": ASKED, "offline": "true"}),
    Question("copy none", CLONE, {"srcGroup": "same-nobody", "destGroup": "same-copy", "offline": "false"}),
    Question("entries of a queue", ENTRIES, ENTRY),
    Question("entries and a group that is away", ENTRIES, {**ENTRY, "consumerGroup": "same-away"}),
    Question("no entries", ENTRIES, {**ENTRY, "count": 0}),
    Question("entries of a queue that is none", ENTRIES, {**ENTRY, "topic": "Same-unseen"}),
    Question("topics of the system", SYSTEM_TOPICS),
    Question("modes of all groups", ALL_MODES),
    Question("a mode for an unknown topic", SET_MODE, {}, mode("Same-unknown")),
    Question("a mode for a retry topic", SET_MODE, {}, mode("%RETRY%same-group")),
    Question("a group that pulls", SET_MODE, {}, mode(EMPTY)),
    Question("how slaves are", REPLICATION),
    Question("a flushed offset for a master", RESET_FLUSHED, {"masterFlushOffset": 0}),
    Question("epochs", EPOCHS),
    Question("create a user", CREATE_USER, {"username": "same"}, b'{"username":"same","password":"x"}'),
    Question("list users", LIST_USERS, {}),
    Question("look at rules", GET_ACL, {"subject": "User:same"}),
]
"""What administrators look at: the bodies, which tell times and hosts, have the same shape."""

ALIKE = [*SENDS, *PULLS, *OFFSETS, *CLIENTS, *ADMIN, *LOOKS]
"""What both brokers answer alike."""

APART: list[tuple[Question, int, int, str]] = [
    (Question("send an empty body", SEND_V2, message("Same-bodiless")), 1, 13, "named instead of an exception's text"),
    (
        Question("send a delay that is no number", SEND_V2, message(TOLD, i="DELAY\x01x\x02"), b"x"),
        1,
        13,
        "named instead of an exception's text",
    ),
    (
        Question("send a batch that is none", SEND_BATCH, message(TOLD, m="true"), b"garbage"),
        1,
        13,
        "named instead of an exception's text",
    ),
    (Question("send to a dead-letter topic", SEND_V2, message("%DLQ%same"), b"x"), 0, 16, "only the broker writes it"),
    (
        Question("commit a negative offset", UPDATE_OFFSET, {**QUEUE, "queueId": 1, "commitOffset": -1}),
        0,
        29,
        "no consumer does",
    ),
    (
        Question("commit in a queue that is none", UPDATE_OFFSET, {**QUEUE, "queueId": 55, "commitOffset": 1}),
        0,
        29,
        "a client that sends these fills the table of offsets",
    ),
    (Question("create a topic with bits for permission", CREATE_TOPIC, topic("S", perm=9)), 0, 29, "it has no meaning"),
    (
        Question("create a topic with negative queues", CREATE_TOPIC, topic("S", readQueueNums=-1)),
        0,
        29,
        "clients fail on it",
    ),
    (
        Question("create a topic with an unknown attribute", CREATE_TOPIC, topic("S", attributes="+no=1")),
        1,
        29,
        "named as what it is",
    ),
    (Question("set an unknown key", UPDATE_CONFIG, {}, b"nothing=1"), 0, 16, "only listed keys change at run time"),
    (Question("goodbye of nobody", UNREGISTER), 0, 1, "the client id is a required field"),
    (
        Question("a pull without its patience", PULL, without(pull(), "suspendTimeoutMillis")),
        0,
        1,
        "a required field",
    ),
    (
        Question("the offset of nobody", QUERY_OFFSET, without(QUEUE, "consumerGroup")),
        0,
        1,
        "a required field",
    ),
]
"""Where our broker differs on purpose: the question, Apache's code, ours, and why."""
