"""Headers about consumer and producer groups and the clients in them."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, int32, text
from rocketpy.wire.headers.common import RpcHeader, TopicHeader

__all__ = [
    "ConsumeMessageDirectlyResultRequestHeader",
    "GetAllProducerInfoRequestHeader",
    "GetConsumerConnectionListRequestHeader",
    "GetConsumerListByGroupRequestHeader",
    "GetConsumerRunningInfoRequestHeader",
    "GetProducerConnectionListRequestHeader",
    "HeartbeatRequestHeader",
    "HeartbeatResponseHeader",
    "LockBatchMqRequestHeader",
    "NotifyConsumerIdsChangedRequestHeader",
    "QuerySubscriptionByConsumerRequestHeader",
    "QueryTopicConsumeByWhoRequestHeader",
    "QueryTopicsByConsumerRequestHeader",
    "UnlockBatchMqRequestHeader",
    "UnregisterClientRequestHeader",
]


@header(RequestCode.HEART_BEAT)
class HeartbeatRequestHeader(RpcHeader):
    """A client says what it does; all of it is in the body."""


@header(RequestCode.HEART_BEAT, answer=True)
class HeartbeatResponseHeader(Header):
    """What a broker of 5.x thinks of the heartbeat. (Bare fields in Java, without a class.)"""

    is_support_heart_beat_v2: bool | None = boolean(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    """Whether subscriptions may be left out while their fingerprint stays the same."""
    is_sub_change: bool | None = boolean(default=None, name="IS_SUB_CHANGE")
    """Whether the broker needs the subscriptions again."""


@header(RequestCode.UNREGISTER_CLIENT)
class UnregisterClientRequestHeader(RpcHeader):
    """A client leaves a group."""

    client_id: str = text(name="clientID")
    producer_group: str | None = text(default=None)
    consumer_group: str | None = text(default=None)


@header(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerListByGroupRequestHeader(RpcHeader):
    """Ask for the ids of the clients in a group."""

    consumer_group: str = text()


@header(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChangedRequestHeader(RpcHeader):
    """A broker says that clients joined or left a group."""

    consumer_group: str = text()


@header(RequestCode.LOCK_BATCH_MQ)
class LockBatchMqRequestHeader(RpcHeader):
    """Lock queues for ordered consumption; which ones is in the body."""


@header(RequestCode.UNLOCK_BATCH_MQ)
class UnlockBatchMqRequestHeader(RpcHeader):
    """Give locked queues back; which ones is in the body."""


@header(RequestCode.GET_CONSUMER_CONNECTION_LIST)
class GetConsumerConnectionListRequestHeader(RpcHeader):
    """Ask for the connections of a consumer group."""

    consumer_group: str = text()


@header(RequestCode.GET_PRODUCER_CONNECTION_LIST)
class GetProducerConnectionListRequestHeader(RpcHeader):
    """Ask for the connections of a producer group."""

    producer_group: str = text()


@header(RequestCode.GET_ALL_PRODUCER_INFO)
class GetAllProducerInfoRequestHeader(Header):
    """Ask for every producer of a broker."""


@header(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetConsumerRunningInfoRequestHeader(RpcHeader):
    """Ask a consumer about its inner state."""

    consumer_group: str = text()
    client_id: str = text()
    jstack_enable: bool = boolean(default=False)


@header(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectlyResultRequestHeader(TopicHeader):
    """Have a consumer consume one message at once."""

    consumer_group: str = text()
    client_id: str | None = text(default=None)
    msg_id: str | None = text(default=None)
    broker_name: str | None = text(default=None)
    topic: str | None = text(default=None)
    topic_sys_flag: int | None = int32(default=None)
    group_sys_flag: int | None = int32(default=None)


@header(RequestCode.QUERY_TOPICS_BY_CONSUMER)
class QueryTopicsByConsumerRequestHeader(RpcHeader):
    """Ask for the topics of a group."""

    group: str = text()


@header(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
class QuerySubscriptionByConsumerRequestHeader(TopicHeader):
    """Ask how a group subscribes a topic."""

    group: str = text()
    topic: str | None = text(default=None)


@header(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
class QueryTopicConsumeByWhoRequestHeader(TopicHeader):
    """Ask which groups consume a topic."""

    topic: str = text()
