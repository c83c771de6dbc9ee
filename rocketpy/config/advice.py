"""Advice about a name that is not a setting: what it is called here, or why it does not exist. Pure.

Loaded only when it is needed. It covers the settings of Java's clients; `foreign` has names from other clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import attrs

from rocketpy.config.foreign import foreign_advice

__all__ = ["NOT_THERE", "SETTERS", "SYSTEM_PROPERTIES", "advice"]

_REASONS = {
    "an internal object, not a setting": """
        backPressureForAsyncSendNumInsideAdjust backPressureForAsyncSendNumLock
        backPressureForAsyncSendSizeInsideAdjust backPressureForAsyncSendSizeLock defaultMQProducerImpl
        defaultLitePullConsumerImpl defaultMQPullConsumerImpl defaultMQPushConsumerImpl log logger namespaceInitialized
        produceAccumulator
    """,
    "an older name of trace_topic": "customizedTraceTopic",
    "an older name of enableTrace": "enableMsgTrace",
    "each client with traces makes its own": "traceDispatcher",
    "traces go to trace_topic; there are no other channels": "accessChannel",
    "there are no namespaces: write the names of topics and groups in full": "namespace namespaceV2",
    "there is no TLS": "useTLS",
    "there are no proxies; use address_map to rewrite the addresses of brokers": "socksProxyConfig",
    "clients connect to the address that a broker has registered, never to the port next to it":
        "vipChannelEnabled sendMessageWithVIPChannel",
    "an older name of sendLatencyEnable, which is called send_latency_enable here": "sendLatencyFaultEnable",
    "an argument of MQClientInstance: hooks; access_key and secret_key sign requests without one": "rpcHook",
    "always PYTHON": "language",
    "completions and callbacks run in the loop, without a pool": "clientCallbackExecutorThreads",
    "bodies are always read and decompressed": "decodeDecompressBody decodeReadBody",
    "every heartbeat is complete, and is sent at once when something has changed": """
        enableHeartbeatChannelEventListener useHeartbeatV2
    """,
    "requests carry no such flag": "enableStreamRequestType",
    "routes are fetched at the first send; TransactionProducer has the setting topics": "topics",
    "arguments of TransactionProducer, not settings: checker and executor": """
        transactionCheckListener transactionListener
    """,
    "check_thread_pool_max_size workers run from the start": "checkThreadPoolMinSize executorService",
    "on when linger is set": "autoBatch",
    "back-pressure is always on": "enableBackpressureForAsyncMode",
    "compressType selects it": "compressor",
    "as many listeners run as there is work for, up to consume_thread_max": """
        adjustThreadPoolNumsThreshold consumeThreadMin
    """,
    "an argument of PushConsumer, not a setting": "messageListener subscription",
    "the consumers of a group share out the queues among themselves": "clientRebalance",
    "there is no pop consumption": "popBatchNums popInvisibleTime popThresholdForQueue",
    "the broker bounds the bytes of an answer": "pullBatchSizeInBytes",
    "pulls go to the broker that the last answer suggested": "connectBrokerByUser defaultBrokerId",
    "each queue is pulled by a task of its own": "pullThreadNums",
    "changes are noticed with the routes, every poll_name_server_interval": "topicMetadataCheckIntervalMillis",
    "a PullConsumer shares no queues with its group; use LitePullConsumer": """
        enableRebalance registerSubscriptions registerTopics
    """,
}  # fmt: skip

NOT_THERE: Mapping[str, str] = {key: reason for reason, keys in _REASONS.items() for key in keys.split()}
"""Java's setting -> why it does not exist here."""

SYSTEM_PROPERTIES: Mapping[str, str] = {
    "rocketmq.client.maxTimeConsumeContinuously": "workers move on to other queues after milliseconds anyway",
    "rocketmq.client.pull.pullMaxIdleTime": "a queue that is not pulled for 120 s without a reason is taken again",
    "rocketmq.client.rebalance.minInterval": "changes lead to a rebalance at once, and failures are retried after 1 s",
    "rocketmq.client.unlockDelayTimeMills": "a queue is unlocked once its listener has returned and it is committed",
}
"""System property of Java's clients -> why no setting corresponds to it. `NOT_OF_CLASSES` has those that have one."""

_TABLE = "pass a LatencyTable as latency_table: it has both columns"
SETTERS: Mapping[str, str] = {"latencyMax": _TABLE, "notAvailableDuration": _TABLE}
"""What Java's producer sets without having a field for it -> how it is set here."""


def advice(name: str, kind: type[attrs.AttrsInstance], others: Iterable[str] = ()) -> str:
    """Advice for a name that is not a setting: a similar name, or what to know about a setting of Java's or of
    another client's; may be empty.

    Args:
        name: the name as the user wrote it.
        kind: the config class whose settings exist.
        others: names that exist beside them.
    """
    written, fields = _folded(name), attrs.fields(kind)
    for field in fields:
        if field.metadata["java"] and _folded(field.metadata["java"]) == written:
            return f"it is called {field.name} here"
    known = [*others, *(field.name for field in fields)]
    for java, reason in (*NOT_THERE.items(), *SETTERS.items()):
        if _folded(java) == written:
            return reason
    for java, reason in SYSTEM_PROPERTIES.items():
        if _folded(java.rpartition(".")[2]) == written:
            return reason
    if said := foreign_advice(name, known):
        return said
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def _folded(name: str) -> str:
    """A name in lower case and without underscores, to compare Java's spelling with ours."""
    return name.replace("_", "").lower()
