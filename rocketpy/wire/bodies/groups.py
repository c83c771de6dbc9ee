"""Consumer groups on a broker: their settings, what they are forbidden, and who is connected."""

from __future__ import annotations

from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.codes import LanguageCode
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType, GroupRetryPolicyType, MessageModel, MessageRequestMode
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = [
    "ClientConnection",
    "ConsumerConnection",
    "CustomizedRetryPolicy",
    "ExponentialRetryPolicy",
    "GetConsumerListByGroupResponseBody",
    "GroupForbidden",
    "GroupList",
    "GroupRetryPolicy",
    "MessageRequestModeSerializeWrapper",
    "ProducerConnection",
    "ProducerInfo",
    "ProducerTableInfo",
    "QuerySubscriptionResponseBody",
    "SetMessageRequestModeRequestBody",
    "SimpleSubscriptionData",
    "SubscriptionGroupConfig",
    "SubscriptionGroupList",
    "SubscriptionGroupWrapper",
]

_RETRY_DELAYS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def _retry_delays() -> list[int]:
    return [seconds * 1000 for seconds in _RETRY_DELAYS_S]


@body
class CustomizedRetryPolicy(Body):
    """A delay of its own for each retry, in ms; the last holds for all that follow."""

    next: list[int] = member(factory=_retry_delays)


@body
class ExponentialRetryPolicy(Body):
    """Delays that grow by a factor, in ms."""

    initial: int = 5000
    max: int = 2 * 3600 * 1000
    multiplier: int = 2


@body
class GroupRetryPolicy(Body):
    """When messages that a group gave back come again."""

    type: GroupRetryPolicyType = GroupRetryPolicyType.CUSTOMIZED
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


@body
class SimpleSubscriptionData(Body):
    """A subscription that belongs to the group's settings, not to a client."""

    topic: str | None = None
    expression_type: str | None = None
    expression: str | None = None
    version: int = 0


@body
class SubscriptionGroupConfig(Body):
    """Settings of a consumer group on one broker."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: GroupRetryPolicy = member(factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    attributes: dict[str, str] = member(factory=dict)


@body
class SubscriptionGroupWrapper(Body):
    """All groups of a broker, and which topics they may not read."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = member(factory=dict)
    forbidden_table: dict[str, dict[str, Int32]] = member(factory=dict)
    """Bits by group and topic."""
    data_version: DataVersion = member(factory=DataVersion)


@body
class SubscriptionGroupList(Body):
    """Groups to create or change."""

    group_config_list: list[SubscriptionGroupConfig] = member(factory=list)


@body
class GroupForbidden(Body):
    """Whether a group may read a topic."""

    topic: str | None = None
    group: str | None = None
    readable: bool | None = None


@body
class GroupList(Body):
    """Names of groups."""

    group_list: set[str] = member(factory=set)


@body
class GetConsumerListByGroupResponseBody(Body):
    """Ids of the clients in a group."""

    consumer_id_list: list[str] = member(factory=list)


@body
class ClientConnection(Body):
    """A client that is connected to a broker."""

    client_id: str | None = None
    client_addr: str | None = None
    language: LanguageCode | None = None
    version: Int32 = 0


@body
class ConsumerConnection(Body):
    """The clients of a consumer group, and what the group subscribes."""

    connection_set: list[ClientConnection] = member(factory=list)
    subscription_table: dict[str, SubscriptionData] = member(factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


@body
class ProducerConnection(Body):
    """The clients of a producer group."""

    connection_set: list[ClientConnection] = member(factory=list)


@body
class ProducerInfo(Body):
    """A producer that is connected to a broker."""

    client_id: str | None = None
    remote_ip: str | None = member(default=None, name="remoteIP")
    language: LanguageCode | None = None
    version: Int32 = 0
    last_update_timestamp: int = 0


@body
class ProducerTableInfo(Body):
    """All producers of a broker by group."""

    data: dict[str, list[ProducerInfo]] = member(factory=dict)


@body
class QuerySubscriptionResponseBody(Body):
    """How a group subscribes a topic; None when it does not."""

    subscription_data: SubscriptionData | None = None
    group: str | None = None
    topic: str | None = None


@body
class SetMessageRequestModeRequestBody(Body):
    """How a group consumes a topic."""

    topic: str | None = None
    consumer_group: str | None = None
    mode: MessageRequestMode = MessageRequestMode.PULL
    pop_share_queue_num: Int32 = 0
    """By how many clients a queue may be popped; 0 for all."""


@body
class MessageRequestModeSerializeWrapper(Body):
    """How every group consumes, by topic and group. Also the file messageRequestMode.json."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = member(factory=dict)
