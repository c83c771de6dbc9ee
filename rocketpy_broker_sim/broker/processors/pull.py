"""PULL_MESSAGE and LITE_PULL_MESSAGE. Plays the part of PullMessageProcessor and its result handler.

The checks are made in Apache's order. A pull that finds no message and may wait is held; `pull_again` runs it once more
when a message has arrived or its time is up, and then answers in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import trio

from rocketpy.errors import BrokerError, ConfigError
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.subscription import SQL92
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.enums import ConsumeType, MessageModel
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.names import group_of_retry_topic
from rocketpy.wire.sysflag import Permission, PullSysFlag
from rocketpy_broker_sim.broker.filters.filtering import (
    bounded_subscription,
    filter_by,
    filter_of,
    filter_of_retries,
    no_property_filter,
    unknown_type,
)
from rocketpy_broker_sim.broker.held_requests.long_polling import BY_ITSELF, held_pull
from rocketpy_broker_sim.config import MASTER_ID
from rocketpy_broker_sim.filter.errors import FilterExpressionError
from rocketpy_broker_sim.store.put_result import GetMessageResult, GetMessageStatus

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
    from rocketpy.wire.bodies.subscription import SubscriptionData
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import PullView
    from rocketpy_broker_sim.store.filtering import MessageFilter

__all__ = ["pull_again", "pull_message"]

log = get_logger(__name__)

_MOST_MESSAGES = 1024
"""How many messages a request may ask for; the store returns fewer anyway."""


class _Forbidden:
    """The values of the field forbiddenType, which tells why a pull is not allowed."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING = 4
    SUBSCRIPTION = 5


class _Refusal(BrokerError):
    """A pull that is not allowed."""

    forbidden: int | None = None


class _ComesAgainError(Exception):
    """The pull is started again from the beginning once its expression has been compiled."""


_CODES = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
_NO_QUEUE = (GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, GetMessageStatus.NO_MESSAGE_IN_QUEUE)


def pull_message(broker: PullView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """Answer with messages, or hold the pull until there are some."""
    return _pull(broker, connection, request, may_wait=True)


def pull_again(broker: PullView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """Answer a held pull with the messages that are there now."""
    return _pull(broker, connection, request, may_wait=False)


def _pull(
    broker: PullView, connection: Connection, request: RemotingCommand, *, may_wait: bool
) -> RemotingCommand | None:
    header = PullMessageRequestHeader.from_ext(request.ext_fields)
    try:
        group, topic = _group_and_topic(broker, request, header)
        wanted = _wanted(broker, connection, request, header, group)
    except _Refusal as exc:
        return _refused(request, exc)
    except _ComesAgainError:
        return None
    reset = _reset(broker, connection, header)
    if reset is not None:
        return _answer(broker, request, reset, _CODES[reset.status], topic, group)
    count = max(1, min(header.max_msg_nums, _MOST_MESSAGES))
    began = trio.current_time()
    found = broker.reads.get(header.topic, header.queue_id, header.queue_offset, count, wanted=wanted)
    seconds = trio.current_time() - began
    broker.statistics.note_get(found.count, seconds)
    if found.count:
        key = header.topic, header.queue_id, header.consumer_group
        broker.flows.note_get(key, found.count, len(found.records), seconds)
    broker.statistics.reads.note(
        header.topic, header.consumer_group, header.queue_id, found.count, found.next_begin_offset
    )
    if may_wait and header.sys_flag & PullSysFlag.COMMIT_OFFSET and header.commit_offset >= 0:
        broker.offsets.commit_of_pull(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    code = _code_of(found.status, header.queue_offset)
    wait = code == ResponseCode.PULL_NOT_FOUND and may_wait and header.sys_flag & PullSysFlag.SUSPEND
    if wait and _hold(broker, connection, request, header, wanted):
        return None
    return _answer(broker, request, found, code, topic, group)


def _reset(broker: PullView, connection: Connection, header: PullMessageRequestHeader) -> GetMessageResult | None:
    """The result that sends a group to another offset; None if the pull may proceed.

    A group is sent elsewhere if an administrator has reset its offset, or if it asks for an offset beyond the end that
    the queue had when the broker started after an unclean stop.
    """
    place = header.consumer_group, header.topic, header.queue_id
    offset = None
    if broker.config.use_server_side_reset_offset:
        offset = broker.offsets.tell_reset(*place, client=connection.address, offset=header.queue_offset)
    if offset is None:
        offset = _sent_back_to(broker, header)
        if offset is None:
            broker.offsets.note_pull(*place)
            return None
    else:
        broker.offsets.note_pull(*place)  # the reset may point to a message that was stored after the start
    return GetMessageResult(
        GetMessageStatus.OFFSET_RESET,
        offset,
        broker.reads.min_offset(header.topic, header.queue_id),
        broker.reads.max_offset(header.topic, header.queue_id),
    )


def _sent_back_to(broker: PullView, header: PullMessageRequestHeader) -> int | None:
    """The committed offset of a group that continues beyond lost messages; None for any other group."""
    place = header.consumer_group, header.topic, header.queue_id
    if not broker.offsets.is_lost(*place, header.queue_offset) or _is_single(header):
        return None
    offset = broker.offsets.query(*place)
    log.warning(
        "sending group %s back from offset %d to its committed offset %d on %s queue %d: messages were lost in an "
        "unclean stop",
        place[0],
        header.queue_offset,
        offset,
        *place[1:],
    )
    return offset


def _is_single(header: PullMessageRequestHeader) -> bool:
    """Whether a program pulls by queue and offset, and so decides itself where to continue."""
    return header.sys_flag & BY_ITSELF == PullSysFlag.SUBSCRIPTION


def _code_of(status: GetMessageStatus, offset: int) -> ResponseCode:
    if status in _NO_QUEUE:
        return ResponseCode.PULL_OFFSET_MOVED if offset != 0 else ResponseCode.PULL_NOT_FOUND
    return _CODES[status]


def _hold(
    broker: PullView,
    connection: Connection,
    request: RemotingCommand,
    header: PullMessageRequestHeader,
    wanted: MessageFilter | None,
) -> bool:
    config = broker.config
    millis = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
    seconds = max(0, min(millis, config.max_hold_millis)) / 1000
    if request.is_oneway:
        return False
    return broker.waiters.hold(held_pull(connection, request, header, wanted), seconds)


def _answer(
    broker: PullView,
    request: RemotingCommand,
    found: GetMessageResult,
    code: ResponseCode,
    topic: TopicConfig,
    group: SubscriptionGroupConfig,
) -> RemotingCommand:
    suggested = MASTER_ID
    if broker.config.slave_read_enable:
        slow = found.suggest_pulling_from_slave
        suggested = group.which_broker_when_consume_slowly if slow else group.broker_id
    fields = {
        "suggestWhichBrokerId": str(suggested),
        "nextBeginOffset": str(found.next_begin_offset),
        "minOffset": str(found.min_offset),
        "maxOffset": str(found.max_offset),
        "topicSysFlag": str(topic.topic_sys_flag),
        "groupSysFlag": str(group.group_sys_flag),
    }
    body = found.records if code == ResponseCode.SUCCESS else b""
    return request.answer(code, found.status.name, fields, body)


# --- checks --------------------------------------------------------------------------------------------


def _refuse(code: ResponseCode, remark: str, forbidden: int | None = None) -> NoReturn:
    error = _Refusal(code, remark)
    error.forbidden = forbidden
    raise error


def _refused(request: RemotingCommand, refusal: _Refusal) -> RemotingCommand:
    """The answer to a refused pull. As with Apache's broker, its header has no offsets, and at most a forbiddenType."""
    fields = {} if refusal.forbidden is None else {"forbiddenType": str(refusal.forbidden)}
    return request.answer(refusal.code, refusal.remark, fields)


def _group_and_topic(
    broker: PullView, request: RemotingCommand, header: PullMessageRequestHeader
) -> tuple[SubscriptionGroupConfig, TopicConfig]:
    """The group and the topic of a pull.

    Raises:
        _Refusal: the broker, the group or the topic may not be read, or the queue does not exist.
    """
    config = broker.config
    if not Permission.is_readable(config.broker_permission):
        _refuse(ResponseCode.NO_PERMISSION, f"pulling from {config.broker_name} is forbidden", _Forbidden.BROKER)
    if request.code == RequestCode.LITE_PULL_MESSAGE and not config.lite_pull_message_enable:
        remark = f"lite pull consumers are forbidden at {config.broker_name}"
        _refuse(ResponseCode.NO_PERMISSION, remark, _Forbidden.BROKER)
    group = broker.groups.find(header.consumer_group)
    if group is None:
        remark = f"the consumer group {header.consumer_group[:255]} does not exist"
        _refuse(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not group.consume_enable:
        _refuse(ResponseCode.NO_PERMISSION, f"the group {group.group_name} may not consume", _Forbidden.GROUP)
    topic = broker.topics.get(header.topic)
    if topic is None:
        _refuse(ResponseCode.TOPIC_NOT_EXIST, f"the topic {header.topic[:255]} does not exist: create it first")
    if not Permission.is_readable(topic.perm):
        _refuse(ResponseCode.NO_PERMISSION, f"pulling from {topic.topic_name} is forbidden", _Forbidden.TOPIC)
    if not 0 <= header.queue_id < topic.read_queue_nums:
        remark = f"queue id {header.queue_id} is illegal: {topic.topic_name} has {topic.read_queue_nums} queues to read"
        _refuse(ResponseCode.INVALID_PARAMETER, remark)
    return group, topic


def _wanted(
    broker: PullView,
    connection: Connection,
    request: RemotingCommand,
    header: PullMessageRequestHeader,
    group: SubscriptionGroupConfig,
) -> MessageFilter | None:
    """The filter of a pull, from the subscription in the request or in earlier heartbeats; None for all messages.

    Raises:
        _Refusal: the subscription is unknown, outdated, not allowed or wrong.
        _ComesAgainError: its expression has to be compiled first.
    """
    if header.sys_flag & PullSysFlag.SUBSCRIPTION:
        return _asked(broker, connection, request, header)
    wanted = _registered(broker, header, group)
    if wanted.is_tag:
        return filter_of(wanted)
    data = broker.filters.table.get(header.topic, header.consumer_group)
    if data is None:
        remark = f"no expression of the group {group.group_name} for {header.topic} is known: it may be wrong"
        _refuse(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
    if data.client_version < header.sub_version:
        _refuse(ResponseCode.FILTER_DATA_NOT_LATEST, "the expression is newer than the broker's: heartbeat first")
    _check_property_filter(broker, wanted)
    if wanted.class_filter_mode:
        return None
    return _of_retries(broker, header.topic) or filter_by(data.compiled, data.bit_test())


def _of_retries(broker: PullView, topic: str) -> MessageFilter | None:
    """What the group of a retry topic wants of the topics its messages came from; None unless that is to be asked."""
    group = group_of_retry_topic(topic) if broker.config.filter_support_retry else None
    return None if group is None else filter_of_retries(group, broker.filters.table)


def _check_property_filter(broker: PullView, wanted: SubscriptionData) -> None:
    if not broker.config.enable_property_filter:
        _refuse(ResponseCode.SYSTEM_ERROR, no_property_filter(wanted.expression_type))


def _asked(
    broker: PullView, connection: Connection, request: RemotingCommand, header: PullMessageRequestHeader
) -> MessageFilter | None:
    """The filter of the subscription in the request.

    Raises:
        _Refusal: the subscription is wrong, or not allowed.
        _ComesAgainError: its expression has to be compiled first.
    """
    try:
        wanted = bounded_subscription(header.topic, header.subscription, header.expression_type)
        if wanted.is_tag:
            return filter_of(wanted)
        _check_property_filter(broker, wanted)
        if wanted.expression_type != SQL92:
            _refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, unknown_type(wanted.expression_type))
        cached = broker.filters.compiling.cached(wanted.sub_string or "")
        if isinstance(cached, FilterExpressionError):
            raise cached
    except ConfigError as exc:
        _refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"the subscription cannot be read: {exc}")
    if cached is not None:
        return _of_retries(broker, header.topic) or filter_by(cached)

    broker.filters.compiling.park(wanted.sub_string or "", connection, request)
    raise _ComesAgainError


def _registered(broker: PullView, header: PullMessageRequestHeader, group: SubscriptionGroupConfig) -> SubscriptionData:
    members = broker.consumers.group(header.consumer_group)
    if members is None:
        remark = f"no client of the group {header.consumer_group} is known: a heartbeat must come first"
        _refuse(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if not group.consume_broadcast_enable and members.message_model is MessageModel.BROADCASTING:
        remark = f"the group {group.group_name} may not consume by broadcast"
        _refuse(ResponseCode.NO_PERMISSION, remark, _Forbidden.BROADCASTING)
    if not broker.groups.is_readable(group.group_name, header.topic):
        remark = f"the group {group.group_name} may not read {header.topic}"
        _refuse(ResponseCode.NO_PERMISSION, remark, _Forbidden.SUBSCRIPTION)
    wanted = members.subscriptions.get(header.topic)
    if wanted is None:
        remark = f"the group {group.group_name} does not subscribe {header.topic}: do its members subscribe alike?"
        _refuse(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if wanted.sub_version < header.sub_version:
        _refuse(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the subscription is newer than the broker's: heartbeat first")
    if broker.config.reject_pull_consumer_enable and members.consume_type is ConsumeType.CONSUME_ACTIVELY:
        _refuse(ResponseCode.SUBSCRIPTION_NOT_EXIST, "pull consumers are rejected by this broker")
    return wanted
