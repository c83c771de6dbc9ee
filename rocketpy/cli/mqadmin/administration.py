"""The commands of mqadmin about topics, groups, offsets, clients, brokers and name servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketpy.cli.mqadmin.alias import ARGUMENT, IGNORED, Alias, Given, Option
from rocketpy.cli.mqadmin.convert import attributes, flag, order, permission, reset_time, seconds
from rocketpy.errors import ConfigError

__all__ = ["ADMINISTRATION"]

_BROKER = Option("b", "brokerAddr", "--broker")
_CLUSTER = Option("c", "clusterName", "--cluster")
_SHORT_CLUSTER = Option("c", "cluster", "--cluster")
_TOPIC = Option("t", "topic", ARGUMENT, required=True)
_BROKER_NAME = Option("b", "brokerName", ARGUMENT, required=True)


# --- commands whose options do not map one by one ----------------------------------------------------


def _order(given: Given) -> list[str]:
    method = given["m"]
    if method == "delete":
        return ["namesrv", "order", "--delete", "--", given["t"]]
    if method not in ("get", "put"):
        raise ConfigError(f"-m must be get, put or delete, not {method!r:.100}")
    if method == "put" and "v" not in given:
        raise ConfigError("-m put needs -v, such as broker-a:4;broker-b:4")
    queues = order(given["v"]) if method == "put" else []
    return ["namesrv", "order", "--", given["t"], *queues]


def _reset(given: Given) -> list[str]:
    places = ["--", given["g"], given["t"]]
    if "o" not in given:
        if "q" in given or "b" in given:
            raise ConfigError("rocketpy resets a single queue only with -o: leave -b and -q out, or pass -o too")
        return ["group", "reset", f"--to={reset_time(given['s'])}", *places]
    if "b" not in given or "q" not in given:
        raise ConfigError("-o needs a queue: pass -b and -q too")
    return ["group", "commit", f"--broker={given['b']}", f"--queue={given['q']}", f"--offset={given['o']}", *places]


def _state(given: Given) -> list[str]:
    if "i" not in given:
        return ["group", "members", "--", given["g"]]
    return ["group", "state", *(["--stacks"] if "s" in given else []), "--", given["g"], given["i"]]


def _broker_setting(given: Given) -> list[str]:
    places = [
        word
        for letter, name in (("b", "broker"), ("c", "cluster"))
        if letter in given
        for word in (f"--{name}={given[letter]}",)
    ]
    return ["broker", "update-config", *places, "--", f"{given['k']}={given['v']}"]


def _writable(answer: str) -> Callable[[Given], list[str]]:
    return lambda given: ["broker", "set-writable", "--", given["b"], answer]


def _metadata(given: Given) -> list[str]:
    kind = "topic" if "t" in given else "subscriptionGroup" if "g" in given else "metadata"
    flags = [f"--{name}" for letter, name in (("t", "topics"), ("g", "groups"), ("s", "internal")) if letter in given]
    places = [f"--broker={given['b']}"] if "b" in given else []
    cluster = ["--", given["c"]] if "c" in given else []
    return ["cluster", "export", "metadata", *flags, *places, *_into(given, kind), *cluster]


def _exported(what: str) -> Alias:
    return Alias(
        f"cluster export {what}",
        (Option("c", "clusterName", ARGUMENT, required=True), Option("f", "filePath", "--file")),
        lambda given: ["cluster", "export", what, *_into(given, what), "--", given["c"]],
    )


def _into(given: Given, name: str) -> list[str]:
    """The file of an export. mqadmin is given its folder."""
    return [f"--file={given['f']}/{name}.json"] if "f" in given else []


# --- the tables -------------------------------------------------------------------------------------------

_TOPICS: Final = {
    "updateTopic": Alias(
        "topic create --exist-ok",
        (
            _TOPIC,
            _BROKER,
            _CLUSTER,
            Option("r", "readQueueNums", "--read-queues"),
            Option("w", "writeQueueNums", "--queues"),
            Option("p", "perm", permission),
            Option("o", "order", flag("order", opposite=False)),
            Option("a", "attributes", attributes),
            Option("u", "unit", None),
            Option("s", "hasUnitSub", None),
        ),
    ),
    "updateTopicList": Alias(
        "topic import --exist-ok", (Option("f", "filename", ARGUMENT, required=True), _BROKER, _CLUSTER)
    ),
    "updateTopicPerm": Alias(
        "topic update", (_TOPIC, _BROKER, _CLUSTER, Option("p", "perm", permission, required=True))
    ),
    "deleteTopic": Alias("topic delete", (_TOPIC, _CLUSTER)),
    "topicList": Alias("topic list --internal", (Option("c", "clusterModel", None, flag=True),)),
    "topicRoute": Alias("topic route", (_TOPIC, Option("l", "list", IGNORED, flag=True))),
    "topicStatus": Alias("topic stats", (_TOPIC, Option("c", "cluster", None))),
    "topicClusterList": Alias("topic route", (_TOPIC,)),
    "statsAll": Alias(
        "topic traffic", (Option("t", "topic", ARGUMENT), Option("a", "activeTopic", "--active", flag=True))
    ),
    "allocateMQ": Alias(
        "topic shares",
        (_TOPIC, Option("i", "ipList", ARGUMENT, required=True)),
        lambda given: ["topic", "shares", "--", given["t"], *given["i"].split(",")],
    ),
    "updateOrderConf": Alias(
        "namesrv order",
        (_TOPIC, Option("v", "orderConf", ARGUMENT), Option("m", "method", ARGUMENT, required=True)),
        _order,
    ),
}

_GROUPS: Final = {
    "updateSubGroup": Alias(
        "group create --exist-ok",
        (
            Option("g", "groupName", ARGUMENT, required=True),
            _BROKER,
            _CLUSTER,
            Option("s", "consumeEnable", flag("consume")),
            Option("d", "consumeBroadcastEnable", flag("broadcast")),
            Option("o", "consumeMessageOrderly", flag("orderly", opposite=False)),
            Option("q", "retryQueueNums", "--retry-queues"),
            Option("r", "retryMaxTimes", "--max-retries"),
            Option("m", "consumeFromMinEnable", None),
            Option("p", "groupRetryPolicy", None),
            Option("i", "brokerId", None),
            Option("w", "whichBrokerWhenConsumeSlowly", None),
            Option("a", "notifyConsumerIdsChanged", None),
        ),
    ),
    "updateSubGroupList": Alias(
        "group import --exist-ok", (Option("f", "filename", ARGUMENT, required=True), _BROKER, _CLUSTER)
    ),
    "deleteSubGroup": Alias(
        "group delete",
        (
            Option("g", "groupName", ARGUMENT, required=True),
            _CLUSTER,
            Option("b", "brokerAddr", None),
            Option("r", "removeOffset", lambda text: ["--offsets"] if text.lower() == "true" else []),
        ),
    ),
    "getConsumerConfig": Alias("group get", (Option("g", "groupName", ARGUMENT, required=True),)),
    "consumerProgress": Alias(
        "lag",
        (
            Option("g", "groupName", ARGUMENT),
            Option("t", "topicName", "--topic"),
            Option("s", "showClientIP", None),
            Option("c", "cluster", "--cluster"),
        ),
    ),
    "brokerConsumeStats": Alias(
        "lag --queues --internal",
        (
            Option("b", "brokerAddr", "--broker", required=True),
            Option("t", "timeoutMillis", seconds),
            Option("l", "level", "--at-least"),
            Option("o", "order", None),
        ),
    ),
    "startMonitoring": Alias("lag --watch --every 60", ()),
    "consumerConnection": Alias(
        "group members", (Option("g", "consumerGroup", ARGUMENT, required=True), Option("b", "brokerAddr", None))
    ),
    "consumerStatus": Alias(
        "group state",
        (
            Option("g", "consumerGroup", ARGUMENT, required=True),
            Option("i", "clientId", ARGUMENT),
            Option("b", "brokerAddr", None),
            Option("s", "jstack", "--stacks", flag=True),
        ),
        _state,
    ),
    "producerConnection": Alias(
        "producer connections",
        (Option("g", "producerGroup", ARGUMENT, required=True), Option("t", "topic", IGNORED)),
    ),
    "resetOffsetByTime": Alias(
        "group reset",
        (
            Option("g", "group", ARGUMENT, required=True),
            _TOPIC,
            Option("s", "timestamp", "--to", required=True),
            Option("b", "broker", "--broker"),
            Option("q", "queue", "--queue"),
            Option("o", "offset", "--offset"),
            Option("f", "force", IGNORED),
            Option("c", "cplus", IGNORED, flag=True),
        ),
        _reset,
    ),
    "skipAccumulatedMessage": Alias(
        "group reset --to end",
        (
            Option("g", "group", ARGUMENT, required=True),
            _TOPIC,
            Option("f", "force", IGNORED),
            Option("c", "cluster", None),
        ),
    ),
    "cloneGroupOffset": Alias(
        "group clone",
        (
            Option("s", "srcGroup", ARGUMENT, required=True),
            Option("d", "destGroup", ARGUMENT, required=True),
            _TOPIC,
            Option("o", "offline", IGNORED),
        ),
    ),
}

_SERVERS: Final = {
    "clusterList": Alias(
        "cluster show",
        (
            Option("c", "clusterName", ARGUMENT),
            Option("m", "moreStats", IGNORED, flag=True),
            Option("i", "interval", None),
        ),
    ),
    "clusterRT": Alias(
        "cluster probe --watch",
        (
            Option("c", "cluster", ARGUMENT),
            Option("a", "amount", "--messages"),
            Option("s", "size", "--size"),
            Option("i", "interval", "--every"),
            Option("p", "print log", None),
            Option("m", "machine room", None),
        ),
    ),
    "haStatus": Alias(
        "broker replication", (Option("b", "brokerAddr", ARGUMENT), _CLUSTER, Option("i", "interval", None))
    ),
    "exportMetadata": Alias(
        "cluster export metadata",
        (
            Option("c", "clusterName", ARGUMENT),
            _BROKER,
            Option("f", "filePath", "--file"),
            Option("t", "topic", "--topics", flag=True),
            Option("g", "subscriptionGroup", "--groups", flag=True),
            Option("s", "specialTopic", "--internal", flag=True),
        ),
        _metadata,
    ),
    "exportConfigs": _exported("configs"),
    "exportMetrics": _exported("metrics"),
    "brokerStatus": Alias("broker runtime", (Option("b", "brokerAddr", ARGUMENT), _CLUSTER)),
    "getBrokerConfig": Alias(
        "broker config", (Option("b", "brokerAddr", ARGUMENT, required=True), Option("c", "clusterName", None))
    ),
    "updateBrokerConfig": Alias(
        "broker update-config",
        (
            _BROKER,
            _CLUSTER,
            Option("a", "updateAllBroker", None),
            Option("k", "key", ARGUMENT, required=True),
            Option("v", "value", ARGUMENT, required=True),
        ),
        _broker_setting,
    ),
    "wipeWritePerm": Alias("broker set-writable", (_BROKER_NAME,), _writable("no")),
    "addWritePerm": Alias("broker set-writable", (_BROKER_NAME,), _writable("yes")),
    "deleteExpiredCommitLog": Alias("broker delete-expired-files", (_BROKER, _SHORT_CLUSTER)),
    "cleanExpiredCQ": Alias("broker delete-expired-queues", (_BROKER, _SHORT_CLUSTER)),
    "cleanUnusedTopic": Alias("broker delete-unused-queues", (_BROKER, _SHORT_CLUSTER)),
    "getNamesrvConfig": Alias("namesrv config", ()),
    "updateNamesrvConfig": Alias(
        "namesrv update-config",
        (Option("k", "key", ARGUMENT, required=True), Option("v", "value", ARGUMENT, required=True)),
        lambda given: ["namesrv", "update-config", "--", f"{given['k']}={given['v']}"],
    ),
    "updateKvConfig": Alias(
        "namesrv kv put",
        (
            Option("s", "namespace", ARGUMENT, required=True),
            Option("k", "key", ARGUMENT, required=True),
            Option("v", "value", ARGUMENT, required=True),
        ),
    ),
    "deleteKvConfig": Alias(
        "namesrv kv delete",
        (Option("s", "namespace", ARGUMENT, required=True), Option("k", "key", ARGUMENT, required=True)),
    ),
}

ADMINISTRATION: Final = {**_TOPICS, **_GROUPS, **_SERVERS}
"""The commands by their names in mqadmin."""
