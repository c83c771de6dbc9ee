"""Every request in small, as a client of good will sends it: what its declaration needs, by the names of the fields."""

from __future__ import annotations

from rocketpy.seams import wall_ms
from rocketpy.wire.catalogue.exchanges import header_class
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import WireField
from rocketpy.wire.recall_handle import RecallHandle
from tests.hostile.innocent import GROUP
from tests.hostile.shapes import dump, fresh

SHORT_CODES = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2}
ATTACKED = "Attacked"
"""A topic of its own, so that what is done to it does not touch the innocent."""
DRIVEN = "Driven"
"""The topic of consumers that are attacked."""

_TEXTS = {
    "topic": ATTACKED,
    "group": GROUP,
    "consumerGroup": GROUP,
    "producerGroup": GROUP,
    "groupName": "AttackedGroup",
    "subscription": "*",
    "defaultTopic": "TBW102",
    "topicFilterType": "SINGLE_TAG",
    "key": "k",
    "namespace": "n",
    "value": "v",
    "brokerName": "broker-z",
    "brokerAddr": "127.0.0.1:1",
    "haServerAddr": "127.0.0.1:2",
    "clusterName": "ZCluster",
    "cluster": "DefaultCluster",
    "clientID": "client",
}
_NUMBERS = {
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "maxNum": "32",
    "maxMsgNums": "32",
    "endTimestamp": str(2**62),
    "delayLevel": "1",
    "defaultTopicQueueNums": "4",
    "timestamp": "-1",
    "queueId": "0",
    "sysFlag": "0",
    "brokerId": "0",
    "commitOrRollback": "8",
}


def group_of(kind: str) -> str:
    """The group of the consumer of a kind that is attacked."""
    return f"attacked-{kind}"


def value_of(field: WireField) -> str:
    """What a field has in a small request."""
    if field.kind == "text":
        return _TEXTS.get(field.name, "x")
    return "false" if field.kind == "boolean" else _NUMBERS.get(field.name, "0")


def small_fields(code: RequestCode) -> dict[str, str]:
    """The header of a small request."""
    kind = header_class(code)
    if kind is None:
        return {}
    short = code in SHORT_CODES
    return {
        (field.short or field.name if short else field.name): value_of(field)
        for field in kind.wire_fields
        if field.required
    } | _MORE.get(code, {})


_MORE: dict[RequestCode, dict[str, str]] = {
    RequestCode.PULL_MESSAGE: {"subscription": "*", "sysFlag": "4"},
    RequestCode.LITE_PULL_MESSAGE: {"subscription": "*", "sysFlag": "4"},
    RequestCode.SEND_BATCH_MESSAGE: {"m": "true"},
    RequestCode.UNREGISTER_CLIENT: {"consumerGroup": GROUP},
    RequestCode.VIEW_BROKER_STATS_DATA: {"statsName": "TOPIC_PUT_NUMS", "statsKey": ATTACKED},
    RequestCode.QUERY_CONSUME_QUEUE: {"topic": ATTACKED, "queueId": "0", "index": "0", "count": "8"},
    RequestCode.CLONE_GROUP_OFFSET: {"srcGroup": GROUP, "destGroup": "AttackedGroup", "topic": ATTACKED},
    RequestCode.RECALL_MESSAGE: {
        "recallHandle": RecallHandle(ATTACKED, "broker-a", str(wall_ms() + 48 * 3_600_000), "U").encode()
    },
}


def small_body(code: RequestCode) -> bytes:
    """The body of a small request."""
    make = _BODIES.get(code)
    return b"" if make is None else make()


def item(body: bytes, properties: bytes = b"") -> bytes:
    """One message of a batch."""
    size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(properties)
    head = size.to_bytes(4, "big") + bytes(12) + len(body).to_bytes(4, "big")
    return head + body + len(properties).to_bytes(2, "big") + properties


def _heartbeat() -> bytes:
    topic = {"topic": ATTACKED, "subString": "*"}
    consumer = {
        "groupName": "AttackedGroup",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [topic],
    }
    return dump({"clientID": "c@1", "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "P"}]})


_BODIES = {
    RequestCode.SEND_MESSAGE: lambda: b"body",
    RequestCode.SEND_MESSAGE_V2: lambda: b"body",
    RequestCode.SEND_BATCH_MESSAGE: lambda: item(b"body") * 2,
    RequestCode.SEND_REPLY_MESSAGE: lambda: b"body",
    RequestCode.SEND_REPLY_MESSAGE_V2: lambda: b"body",
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.CHECK_CLIENT_CONFIG: lambda: dump({"clientId": "c", "group": GROUP}),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: lambda: dump({"topicConfigList": [{"topicName": fresh("T")}]}),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda: dump({"groupName": fresh("G")}),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: lambda: dump(
        {"groupConfigList": [{"groupName": fresh("G")}]}
    ),
    RequestCode.SET_MESSAGE_REQUEST_MODE: lambda: dump({"topic": ATTACKED, "consumerGroup": GROUP, "mode": "PULL"}),
    RequestCode.UPDATE_BROKER_CONFIG: lambda: b"longPollingEnable=true\n",
    RequestCode.UPDATE_NAMESRV_CONFIG: lambda: b"orderMessageEnable=false\n",
    RequestCode.REGISTER_BROKER: lambda: dump(
        {"topicConfigSerializeWrapper": {"topicConfigTable": {name: {"topicName": name} for name in ("ZA", "ZB")}}}
    ),
    RequestCode.QUERY_DATA_VERSION: lambda: dump({"counter": 1, "stateVersion": 0, "timestamp": 1}),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: lambda: dump(
        {"queueDatas": [{"brokerName": "broker-z", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}]}
    ),
}
