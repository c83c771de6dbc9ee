"""Clients that come and go: HEART_BEAT, UNREGISTER_CLIENT and CHECK_CLIENT_CONFIG. Plays ClientManageProcessor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError, ConfigError
from rocketpy.wire.bodies.heartbeat import CheckClientRequestBody, ConsumerData, HeartbeatData
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.headers.group import UnregisterClientRequestHeader
from rocketpy.wire.names import is_valid_group, is_valid_stored_topic, retry_topic
from rocketpy.wire.sysflag import Permission, TopicSysFlag
from rocketpy_broker_sim.broker.filtering import check_bounds
from rocketpy_broker_sim.broker.tables.clients import ClientChannel

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import ClientView

__all__ = ["check_client_config", "heart_beat", "unregister_client"]

_SUPPORTS_V2 = "IS_SUPPORT_HEART_BEAT_V2"
_SUBSCRIPTIONS_CHANGED = "IS_SUB_CHANGE"
_MAX_CLIENT_ID = 1024


def heart_beat(broker: ClientView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Note what a client does: its producers, its consumers and what they subscribe."""
    data = HeartbeatData.decode(request.body)
    if not data.client_id or len(data.client_id) > _MAX_CLIENT_ID:
        return request.answer(ResponseCode.INVALID_PARAMETER, "the client id is blank or too long")
    client = ClientChannel(connection, data.client_id, request.language, request.version)
    changed = False
    for consumer in data.consumer_data_set:
        changed = _consumer(broker, client, data, consumer) or changed
    for producer in data.producer_data_set:
        if is_valid_group(producer.group_name):
            broker.producers.register(producer.group_name, client)
    # The first version of the heartbeat sends everything each time, so a client that speaks it may as well.
    is_first_version = data.heartbeat_fingerprint == 0
    fields = {_SUPPORTS_V2: "true", _SUBSCRIPTIONS_CHANGED: "true" if is_first_version or changed else "false"}
    return request.answer(ResponseCode.SUCCESS, None, fields)


def _consumer(broker: ClientView, client: ClientChannel, data: HeartbeatData, consumer: ConsumerData) -> bool:
    """Take in one consumer group. Returns whether the client should send its subscriptions again."""
    name = consumer.group_name
    if broker.config.reject_pull_consumer_enable and consumer.consume_type is ConsumeType.CONSUME_ACTIVELY:
        return False
    group = broker.groups.find(name) if is_valid_group(name) else None
    if group is None:
        return False
    _check_subscriptions(consumer)
    fingerprint = data.heartbeat_fingerprint
    order = any(broker.topics.is_order(each.topic) for each in consumer.subscription_data_set)
    broker.topics.create_retry(
        retry_topic(name),
        group.retry_queue_nums,
        Permission.READ | Permission.WRITE,
        TopicSysFlag.UNIT_SUB if consumer.unit_mode else 0,
        order=order,
    )
    known = broker.consumers.group(name) is not None
    broker.consumers.register(
        name,
        client,
        consumer,
        notify=group.notify_consumer_ids_changed_enable,
        with_subscriptions=not (fingerprint and data.without_sub),
    )
    changed = broker.consumers.fingerprint_changed(name, fingerprint)
    # A broker that was restarted does not know the subscriptions which the heartbeat leaves out.
    return bool(fingerprint) and (changed or (data.without_sub and not known))


def _check_subscriptions(consumer: ConsumerData) -> None:
    """Refuse names that no topic has, and expressions without bounds.

    Raises:
        BrokerError: one of the subscriptions is not acceptable.
    """
    for each in consumer.subscription_data_set:
        if not is_valid_stored_topic(each.topic):
            raise BrokerError.for_code(
                ResponseCode.INVALID_PARAMETER,
                f"the topic {each.topic[:127]!r} is blank, too long or has bad characters",
            )
        try:
            check_bounds(each)
        except ConfigError as exc:
            raise BrokerError.for_code(ResponseCode.INVALID_PARAMETER, str(exc)) from exc


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
    wanted = CheckClientRequestBody.decode(request.body).subscription_data if request.body else None
    if wanted is None or wanted.is_tag:
        return request.answer()
    remark = f"the broker does not filter messages by {str(wanted.expression_type)[:64]}"
    return request.answer(ResponseCode.SYSTEM_ERROR, remark)
