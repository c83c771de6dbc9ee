"""The settings of Java's clients beside ours: names, and where defaults differ. Pure.

Used by the documentation and by tests alone; `advice` has what is not there. Covers ClientConfig, DefaultMQProducer,
TransactionMQProducer, DefaultMQPushConsumer, DefaultLitePullConsumer and DefaultMQPullConsumer of 4.9.7 and 5.3.3.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.config.client import ClientConfig
from rocketpy.config.lite_pull_consumer import LitePullConsumerConfig
from rocketpy.config.producer import ProducerConfig
from rocketpy.config.pull_consumer import PullConsumerConfig
from rocketpy.config.push_consumer import PushConsumerConfig
from rocketpy.config.transaction_producer import TransactionProducerConfig

__all__ = [
    "CONFIGS",
    "NOT_OF_CLASSES",
    "NOT_THERE_OF",
    "OTHER_DEFAULTS",
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
