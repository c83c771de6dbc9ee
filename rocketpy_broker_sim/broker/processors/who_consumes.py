"""Which groups consume a topic, and what a group consumes: QUERY_TOPIC_CONSUME_BY_WHO, QUERY_TOPICS_BY_CONSUMER and
QUERY_SUBSCRIPTION_BY_CONSUMER. Plays a part of AdminBrokerProcessor.

A group consumes a topic if it has committed an offset in it, or if one of its connected clients subscribes to it.
Neither an unknown topic nor an unknown group is an error, as with Apache's broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.wire.bodies.groups import GroupList, QuerySubscriptionResponseBody
from rocketpy.wire.bodies.topics import TopicList
from rocketpy.wire.headers.group import (
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from rocketpy_broker_sim.broker.processors.checks import check_group, check_topic
from rocketpy_broker_sim.serving.encoding import encode_steps

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import ConsumptionView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["groups_of_topic", "subscription_of_group", "topics_of_group"]

_GROUPS_A_STEP = 64


def groups_of_topic(broker: ConsumptionView, connection: Connection, request: RemotingCommand) -> Steps:
    """The groups that consume a topic. A sliced processor."""
    topic = check_topic(QueryTopicConsumeByWhoRequestHeader.from_ext(request.ext_fields).topic)
    found = broker.offsets.groups_of(topic)
    for count, group in enumerate(broker.consumers.groups()):
        if topic in group.subscriptions:
            found.add(group.name)
        if count % _GROUPS_A_STEP == 0:
            yield
    return request.answer(body=(yield from encode_steps(GroupList(group_list=found))))


def topics_of_group(broker: ConsumptionView, connection: Connection, request: RemotingCommand) -> Steps:
    """The topics in which a group has committed offsets. A sliced processor."""
    group = check_group(QueryTopicsByConsumerRequestHeader.from_ext(request.ext_fields).group)
    found = TopicList(topic_list=broker.offsets.topics_of(group), broker_addr=broker.identity.address)
    return request.answer(body=(yield from encode_steps(found)))


def subscription_of_group(broker: ConsumptionView, connection: Connection, request: RemotingCommand) -> Steps:
    """The subscription of the connected clients of a group to a topic, or none. A sliced processor."""
    header = QuerySubscriptionByConsumerRequestHeader.from_ext(request.ext_fields)
    group, topic = check_group(header.group), check_topic(header.topic or "")
    found = QuerySubscriptionResponseBody(
        subscription_data=broker.consumers.subscription(group, topic), group=group, topic=topic
    )
    return request.answer(body=(yield from encode_steps(found)))
