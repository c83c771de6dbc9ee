"""Clients that come and go: HEART_BEAT, UNREGISTER_CLIENT and CHECK_CLIENT_CONFIG. Plays ClientManageProcessor."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.wire.bodies.heartbeat import CheckClientRequestBody, ConsumerData, HeartbeatData
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.headers.group import UnregisterClientRequestHeader
from rocketpy.wire.limits import REQUEST_LIMITS, SMALL_REQUEST_LIMITS
from rocketpy.wire.names import is_valid_group, is_valid_stored_topic, retry_topic
from rocketpy.wire.sysflag import Permission, TopicSysFlag
from rocketpy_broker_sim.broker.filtering import check_bounds
from rocketpy_broker_sim.broker.processors.checks import invalid
from rocketpy_broker_sim.broker.replies import without_body
from rocketpy_broker_sim.broker.tables.clients import ClientChannel

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import ClientView
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["MOST_SUBSCRIPTIONS", "check_client_config", "heart_beat", "unregister_client"]

_SUPPORTS_V2 = "IS_SUPPORT_HEART_BEAT_V2"
_SUBSCRIPTIONS_CHANGED = "IS_SUB_CHANGE"
_MAX_CLIENT_ID = 1024
MOST_SUBSCRIPTIONS = 2048
"""Topics that a client may subscribe to, in all its groups together."""


def heart_beat(broker: ClientView, connection: Connection, request: RemotingCommand) -> Steps:
    """Note what a client does: its producers, its consumers and what they subscribe.

    A sliced processor: a heartbeat that waits when its connection closes is never begun, and one that is under way goes
    no further, so that no member stays behind whose connection is gone. One that makes a retry topic is answered once
    the name servers have heard of that: a client looks for it next, and again after half a minute only.
    """
    data = yield from HeartbeatData.decode_steps(request.body, limits=REQUEST_LIMITS)
    _check_client(broker.config, data)
    client = ClientChannel(connection, data.client_id, request.language, request.version)
    changed = False
    made: list[str] = []
    for consumer in data.consumer_data_set:
        changed = (yield from _consumer(broker, client, data, consumer, made)) or changed
    for producer in data.producer_data_set:
        if is_valid_group(producer.group_name):
            broker.producers.register(producer.group_name, client)
        yield
    # The first version of the heartbeat sends everything each time, so a client that speaks it may as well.
    is_first_version = data.heartbeat_fingerprint == 0
    fields = {_SUPPORTS_V2: "true", _SUBSCRIPTIONS_CHANGED: "true" if is_first_version or changed else "false"}
    answer = request.answer(ResponseCode.SUCCESS, None, fields)
    return (yield from _once_heard(broker, made, answer, partial(connection.send_answer, without_body(request))))


def _once_heard(
    broker: ClientView, topics: list[str], answer: RemotingCommand, send: Callable[[RemotingCommand], object]
) -> Steps:
    """The answer, if the name servers have heard of all these topics; otherwise it is sent when they have."""
    missing, is_late = len(topics), False

    def heard() -> None:
        nonlocal missing
        missing -= 1
        if is_late and not missing:
            send(answer)

    for topic in topics:
        broker.hear(topic, heard)
        yield
    is_late = missing > 0
    return None if is_late else answer


def _check_client(config: BrokerConfig, data: HeartbeatData) -> None:
    """Refuse a client that has no name, or is in more groups than a client may be, before anything of it is noted.

    Raises:
        BrokerError: with what is wrong.
    """
    if not data.client_id or len(data.client_id) > _MAX_CLIENT_ID:
        raise invalid(f"the client id is blank, or has more than {_MAX_CLIENT_ID} characters")
    most = config.max_groups_per_client
    groups = max(len(data.consumer_data_set), len(data.producer_data_set))
    if groups > most:
        raise invalid(
            f"the client is in {groups} groups, {most} are allowed: use more clients, or raise maxGroupsPerClient"
        )
    subscriptions = sum(len(consumer.subscription_data_set) for consumer in data.consumer_data_set)
    if subscriptions > MOST_SUBSCRIPTIONS:
        raise invalid(
            f"the client subscribes to {subscriptions} topics, {MOST_SUBSCRIPTIONS} are allowed: use more clients"
        )


def _consumer(
    broker: ClientView, client: ClientChannel, data: HeartbeatData, consumer: ConsumerData, made: list[str]
) -> Generator[None, None, bool]:
    """Take in one consumer group, and note its retry topic in `made` if that is new.

    Returns whether the client should send its subscriptions again.
    """
    name = consumer.group_name
    if broker.config.reject_pull_consumer_enable and consumer.consume_type is ConsumeType.CONSUME_ACTIVELY:
        return False
    group = broker.groups.find(name) if is_valid_group(name) else None
    if group is None:
        return False
    order = yield from _check_subscriptions(broker, consumer)
    fingerprint = data.heartbeat_fingerprint
    retry = retry_topic(name)
    if retry not in broker.topics:
        made.append(retry)
    broker.topics.create_retry(
        retry,
        group.retry_queue_nums,
        Permission.READ | Permission.WRITE,
        TopicSysFlag.UNIT_SUB if consumer.unit_mode else 0,
        order=order,
    )
    yield
    known = broker.consumers.group(name) is not None
    broker.consumers.register(
        name,
        client,
        consumer,
        notify=group.notify_consumer_ids_changed_enable,
        with_subscriptions=not (fingerprint and data.without_sub),
    )
    changed = broker.consumers.fingerprint_changed(name, fingerprint)
    yield
    # A broker that was restarted does not know the subscriptions which the heartbeat leaves out.
    return bool(fingerprint) and (changed or (data.without_sub and not known))


def _check_subscriptions(broker: ClientView, consumer: ConsumerData) -> Generator[None, None, bool]:
    """Refuse names that no topic has, and expressions without bounds. Returns whether a topic is one in order.

    Raises:
        BrokerError: one of the subscriptions is not acceptable.
    """
    order = False
    for number, each in enumerate(consumer.subscription_data_set):
        if not is_valid_stored_topic(each.topic):
            raise invalid(f"the topic {each.topic[:127]!r} is blank, too long or has illegal characters")
        try:
            check_bounds(each)
        except ConfigError as exc:
            raise invalid(str(exc)) from exc
        order = order or broker.topics.is_order(each.topic)
        if number % 32 == 31:
            yield
    return order


def unregister_client(broker: ClientView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Let a client leave its groups."""
    header = UnregisterClientRequestHeader.from_ext(request.ext_fields)
    if header.producer_group is not None:
        broker.producers.unregister(header.producer_group, connection)
    if header.consumer_group is not None:
        broker.consumers.unregister(header.consumer_group, connection)
    return request.answer()


def check_client_config(broker: ClientView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Say whether this broker can filter as a subscription needs it."""
    asked = CheckClientRequestBody.decode(request.body, limits=SMALL_REQUEST_LIMITS) if request.body else None
    wanted = asked.subscription_data if asked is not None else None
    if wanted is None or wanted.is_tag:
        return request.answer()
    remark = f"the broker does not filter messages by {str(wanted.expression_type)[:64]}"
    return request.answer(ResponseCode.SYSTEM_ERROR, remark)
