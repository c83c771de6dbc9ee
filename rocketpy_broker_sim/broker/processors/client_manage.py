"""Clients that come and go: HEART_BEAT, UNREGISTER_CLIENT and CHECK_CLIENT_CONFIG. Plays ClientManageProcessor."""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError, ConfigError
from rocketpy.wire.bodies.heartbeat import CheckClientRequestBody, ConsumerData, HeartbeatData
from rocketpy.wire.bodies.subscription import SQL92, SubscriptionData
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.headers.group import UnregisterClientRequestHeader
from rocketpy.wire.limits import REQUEST_LIMITS, SMALL_REQUEST_LIMITS
from rocketpy.wire.names import is_valid_group, is_valid_stored_topic, retry_topic
from rocketpy.wire.sysflag import Permission, TopicSysFlag
from rocketpy_broker_sim.broker.filters.filtering import check_bounds, cut, no_property_filter, unknown_type
from rocketpy_broker_sim.broker.processors.checks import check_client_id, invalid
from rocketpy_broker_sim.broker.processors.pending import PendingAnswer
from rocketpy_broker_sim.broker.replies import without_body
from rocketpy_broker_sim.broker.tables.clients import ClientChannel
from rocketpy_broker_sim.filter.errors import FilterExpressionError

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.filters.compiling import Compiled
    from rocketpy_broker_sim.broker.views import ClientView
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["MOST_SUBSCRIPTIONS", "check_client_config", "heart_beat", "unregister_client"]

_SUPPORTS_V2 = "IS_SUPPORT_HEART_BEAT_V2"
_SUBSCRIPTIONS_CHANGED = "IS_SUB_CHANGE"
MOST_SUBSCRIPTIONS = 2048
"""Topics that a client may subscribe to, in all its groups together."""


def heart_beat(broker: ClientView, connection: Connection, request: RemotingCommand) -> Steps:
    """Note what a client does: its producers, its consumers and what they subscribe.

    A sliced processor: a heartbeat that waits when its connection closes is never begun, and one that is under way goes
    no further, so that no member stays behind whose connection is gone. One that makes a retry topic is answered once
    the name servers know the topic: a client looks for it next, and again after half a minute only.

    What has to be refused is left out, and the answer says so after the rest has been noted: a client must not lose all
    of its groups because of one subscription.

    Raises:
        BrokerError: the first reason why something was left out.
    """
    data = yield from HeartbeatData.decode_steps(request.body, limits=REQUEST_LIMITS)
    _check_client(broker.config, data)
    client = ClientChannel(connection, data.client_id, request.language, request.version)
    changed = False
    pending = PendingAnswer(partial(connection.send_answer, without_body(request)))
    for consumer in data.consumer_data_set:
        try:
            changed = (yield from _consumer(broker, client, data, consumer, pending)) or changed
        except BrokerError as error:
            pending.refuse(error)
    for producer in data.producer_data_set:
        if is_valid_group(producer.group_name):
            try:
                broker.producers.register(producer.group_name, client)
            except BrokerError as error:
                pending.refuse(error)
        yield
    if pending.refusal is not None:
        raise pending.refusal
    # The first version of the heartbeat sends everything each time, so a client that speaks it may as well.
    is_first_version = data.heartbeat_fingerprint == 0
    fields = {_SUPPORTS_V2: "true", _SUBSCRIPTIONS_CHANGED: "true" if is_first_version or changed else "false"}
    return pending.answer(request.answer(ResponseCode.SUCCESS, None, fields))


def _check_client(config: BrokerConfig, data: HeartbeatData) -> None:
    """Refuse a client that has no name, or is in more groups than a client may be, before anything of it is noted.

    Raises:
        BrokerError: with what is wrong.
    """
    check_client_id(data.client_id)
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
    broker: ClientView, client: ClientChannel, data: HeartbeatData, consumer: ConsumerData, pending: PendingAnswer
) -> Generator[None, None, bool]:
    """Register one consumer group, and note in `pending` what the answer has to wait for and what is left out.

    Returns whether the client should send its subscriptions again.

    Raises:
        BrokerError: the client cannot be a member of the group.
    """
    name = consumer.group_name
    if broker.config.reject_pull_consumer_enable and consumer.consume_type is ConsumeType.CONSUME_ACTIVELY:
        return False
    group = broker.groups.find(name) if is_valid_group(name) else None
    if group is None:
        return False
    subscriptions, order = yield from _acceptable(broker, consumer, pending)
    fingerprint = data.heartbeat_fingerprint
    retry = retry_topic(name)
    is_new = retry not in broker.topics
    broker.topics.create_retry(
        retry,
        group.retry_queue_nums,
        Permission.READ | Permission.WRITE,
        TopicSysFlag.UNIT_SUB if consumer.unit_mode else 0,
        order=order,
    )
    if is_new:
        pending.add(1)
        broker.new_topics.made(retry, pending.done)
    elif broker.new_topics.join(retry, pending.done):
        pending.add(1)
    yield
    known = broker.consumers.group(name) is not None
    with_subscriptions = not (fingerprint and data.without_sub)
    broker.consumers.register(
        name,
        client,
        _kept(consumer, subscriptions),
        notify=group.notify_consumer_ids_changed_enable,
        with_subscriptions=with_subscriptions,
    )
    if with_subscriptions:
        is_current = partial(_is_current, broker, name)
        pending.add(broker.filters.register(name, subscriptions, is_current, pending.done))
    changed = broker.consumers.fingerprint_changed(name, fingerprint)
    yield
    # A broker that was restarted does not know the subscriptions which the heartbeat leaves out.
    return bool(fingerprint) and (changed or (data.without_sub and not known))


def _kept(consumer: ConsumerData, subscriptions: list[SubscriptionData]) -> ConsumerData:
    """What is kept of a consumer with these of its subscriptions."""
    kept = copy(consumer)
    kept.subscription_data_set = [cut(each) for each in subscriptions]
    return kept


def _is_current(broker: ClientView, group: str, wanted: SubscriptionData) -> bool:
    """Whether a group still subscribes a topic so."""
    current = broker.consumers.subscription(group, wanted.topic)
    if current is None or current.sub_version != wanted.sub_version:
        return False
    return current.sub_string == wanted.sub_string and current.expression_type == wanted.expression_type


def _acceptable(
    broker: ClientView, consumer: ConsumerData, pending: PendingAnswer
) -> Generator[None, None, tuple[list[SubscriptionData], bool]]:
    """The subscriptions of a group to topics that may exist, by tags within bounds. Notes why others are left out.

    An expression that is too long stays, as one that is wrong does: no messages are delivered by either.

    Returns:
        These subscriptions, and whether one of their topics is consumed in order.
    """
    order, found = False, []
    for number, each in enumerate(consumer.subscription_data_set):
        try:
            _check_subscription(consumer.group_name, each)
        except BrokerError as error:
            pending.refuse(error)
        else:
            found.append(each)
            order = order or broker.topics.is_order(each.topic)
        if number % 32 == 31:
            yield
    return found, order


def _check_subscription(group: str, wanted: SubscriptionData) -> None:
    """Refuse a name that no topic can have, and more tags than are allowed.

    Raises:
        BrokerError: with what is wrong.
    """
    if not is_valid_stored_topic(wanted.topic):
        raise invalid(f"the topic {wanted.topic[:127]!r} is blank, too long or has illegal characters")
    try:
        check_bounds(wanted)
    except ConfigError as exc:
        raise invalid(f"the group {group} does not subscribe to {wanted.topic}: {exc}") from exc


def unregister_client(broker: ClientView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Let a client leave its groups."""
    header = UnregisterClientRequestHeader.from_ext(request.ext_fields)
    if header.producer_group is not None:
        broker.producers.unregister(header.producer_group, connection)
    if header.consumer_group is not None:
        broker.consumers.unregister(header.consumer_group, connection)
    return request.answer()


def check_client_config(broker: ClientView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """Say whether this broker can filter as a subscription needs it, and what is wrong with its expression."""
    asked = CheckClientRequestBody.decode(request.body, limits=SMALL_REQUEST_LIMITS) if request.body else None
    wanted = asked.subscription_data if asked is not None else None
    if wanted is None or wanted.is_tag:
        return request.answer()
    if not broker.config.enable_property_filter:
        return request.answer(ResponseCode.SYSTEM_ERROR, no_property_filter(wanted.expression_type))
    if wanted.expression_type != SQL92:
        return request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, unknown_type(wanted.expression_type))
    cached = broker.filters.compiling.cached(wanted.sub_string or "")
    if cached is not None:
        return _judged(request, cached)
    request = without_body(request)

    def done(found: Compiled) -> None:
        connection.send_answer(request, _judged(request, found))

    broker.filters.compiling.later(wanted.sub_string or "", done)
    return None


def _judged(request: RemotingCommand, found: Compiled) -> RemotingCommand:
    if isinstance(found, FilterExpressionError):
        return request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"the expression cannot be read: {found}")
    return request.answer()
