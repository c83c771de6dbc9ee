"""What a client tells every broker about itself: its producers, its consumers and what they subscribe."""

from __future__ import annotations

from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = ["CheckClientRequestBody", "ConsumerData", "HeartbeatData", "ProducerData"]


@body
class ProducerData(Body):
    """A producer group of the client."""

    group_name: str


@body
class ConsumerData(Body):
    """A consumer group that the client is a member of."""

    group_name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: list[SubscriptionData] = member(factory=list)
    unit_mode: bool = False


@body
class HeartbeatData(Body):
    """The body of HEART_BEAT."""

    client_id: str = member(name="clientID")
    producer_data_set: list[ProducerData] = member(factory=list)
    consumer_data_set: list[ConsumerData] = member(factory=list)
    heartbeat_fingerprint: Int32 = 0
    """0, or in the second version of the protocol a number that changes with the subscriptions."""
    without_sub: bool = False
    """Whether the subscriptions were left out because the broker knows them."""


@body
class CheckClientRequestBody(Body):
    """Ask a broker whether it can do what a subscription needs (CHECK_CLIENT_CONFIG)."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None
