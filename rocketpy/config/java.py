"""The settings of Java's clients: their names here, and why some do not exist here. Pure.

Used by the documentation, by tests, and to give advice when someone uses one of Java's names; otherwise it is not
loaded. Covers ClientConfig, DefaultMQProducer, TransactionMQProducer, DefaultMQPushConsumer, DefaultLitePullConsumer
and DefaultMQPullConsumer of 4.9.7 and 5.3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import attrs

from rocketpy.config.client import ClientConfig
from rocketpy.config.foreign import foreign_advice
from rocketpy.config.lite_pull_consumer import LitePullConsumerConfig
from rocketpy.config.producer import ProducerConfig
from rocketpy.config.pull_consumer import PullConsumerConfig
from rocketpy.config.push_consumer import PushConsumerConfig
from rocketpy.config.transaction_producer import TransactionProducerConfig

__all__ = [
    "CONFIGS",
    "NOT_OF_CLASSES",
    "NOT_THERE",
    "NOT_THERE_OF",
    "OTHER_DEFAULTS",
    "SYSTEM_PROPERTIES",
    "advice",
    "fields_by_java_name",
]

CONFIGS = (
    ClientConfig,
    ProducerConfig,
    TransactionProducerConfig,
    PushConsumerConfig,
    LitePullConsumerConfig,
    PullConsumerConfig,
)

_REASONS = {
    "a part of the object, not a setting": """
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
    "there are no proxies; address_map says how brokers are reached": "socksProxyConfig",
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

_NO_SHARE = "a PullConsumer shares no queues with its group; use LitePullConsumer"
_NO_TRACE = "a PullConsumer is not traced, as in Java: what the program does with its messages is not known"
NOT_THERE_OF: Mapping[type[ClientConfig], Mapping[str, str]] = {
    LitePullConsumerConfig: {
        "consumerPullTimeoutMillis": "brokers hold every lite pull; consumer_timeout_when_suspend bounds it",
    },
    PullConsumerConfig: {
        "enableTrace": _NO_TRACE,
        "traceTopic": _NO_TRACE,
        "traceMsgBatchNum": _NO_TRACE,
        "allocateMessageQueueStrategy": _NO_SHARE,
        "messageModel": _NO_SHARE,
        "messageQueueListener": _NO_SHARE,
        "offsetStore": "offsets are kept on the brokers; a program with its own passes one to each pull",
        "maxReconsumeTimes": "pull consumers do not send messages back",
        "pullTimeDelayMillsWhenException": "a pull that fails raises, and the program decides when to pull again",
    },
}
"""Config class -> Java's setting that it leaves out although another class has it -> why."""

OTHER_DEFAULTS: Mapping[str, str] = {
    "allocateMessageQueueStrategy": "the same strategy, by name",
    "awaitTerminationMillisWhenShutdown": "listeners get 10 s to finish; Java does not wait for them",
    "backPressureForAsyncSendNum": "1024, as in later releases: 10,000 waiting messages gain nothing",
    "batchMaxBytes": "32 KiB, which is what Java's -1 stands for",
    "batchMaxDelayMs": "None, which is off; Java's -1 stands for 10 ms, and autoBatch is off",
    "totalBatchMaxBytes": "32 MiB, which is what Java's -1 stands for",
    "checkThreadPoolMaxSize": "4, so that one slow checker does not delay all others",
    "clientIP": "looked up when a client starts",
    "consumeTimestamp": "counted from when a consumer starts, not from when its settings are made",
    "consumerGroup": "required: with a default name, unrelated programs would share a group",
    "instanceName": "every client has an id of its own, even several in one process",
    "namesrvAddr": "the environment variable NAMESRV_ADDR, or none: no web address is asked for name servers",
    "producerGroup": "required",
    "pullTimeDelayMillsWhenException": "3 s rather than 1 s, to spare a broker in trouble",
    "retryResponseCodes": "the same set, as codes",
    "traceMsgBatchNum": "100, as in 4.9; with 10, every tenth message sent would be one of the trace",
    "traceTopic": "the name itself; in Java null stands for it",
    "sendMsgMaxTimeoutPerRequest": "half of the time left if another broker can follow; Java lets one attempt take all",
}
"""Why a default is not Java's, by Java's name."""

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

NOT_OF_CLASSES: Mapping[str, str] = {
    "BROKER_SUSPEND_MAX_TIME_MILLIS": "a constant of Java's consumer",
    "CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND": "a constant of Java's consumer",
    "clientChannelMaxIdleTimeSeconds": "of NettyClientConfig",
    "connectTimeoutMillis": "of NettyClientConfig",
    "lockInterval": "a system property, rocketmq.client.rebalance.lockInterval",
    "lockMaxLiveTime": "a system property, rocketmq.client.rebalance.lockMaxLiveTime",
    "waitInterval": "a system property, rocketmq.client.rebalance.waitInterval",
}
"""Name -> where it comes from in Java, for settings that are not fields of Java's classes."""


def fields_by_java_name(*kinds: type[ClientConfig]) -> dict[str, attrs.Attribute[object]]:
    """The fields that have a name in Java, by that name, of all config classes or of `kinds`."""
    fields = [field for kind in kinds or CONFIGS for field in attrs.fields(kind)]
    return {field.metadata["java"]: field for field in fields if field.metadata["java"]}


def advice(name: str, known: Iterable[str]) -> str:
    """Advice for a name that is not a setting: a similar name, or what to know about a setting of Java's or of
    another client's; may be empty.

    Args:
        name: the name as the user wrote it.
        known: the settings that exist.
    """
    known = list(known)
    written = _folded(name)
    for java, field in fields_by_java_name().items():
        if _folded(java) == written and field.name in known:
            return f"it is called {field.name} here"
    for java, reason in (*NOT_THERE.items(), *SETTERS.items()):
        if _folded(java) == written:
            return reason
    for java, reason in SYSTEM_PROPERTIES.items():
        if _folded(java.rpartition(".")[2]) == written:
            return reason
    if said := foreign_advice(name, known):
        return said
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"do you mean {near[0]}?" if near else ""


def _folded(name: str) -> str:
    """A name in lower case and without underscores, to compare Java's spelling with ours."""
    return name.replace("_", "").lower()
