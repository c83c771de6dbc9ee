"""The first stage of the put pipeline: may a message be sent, and where to?

The checks come in Apache's order, and the broker adds MSG_REGION, TRACE_ON, CLUSTER and, where it is missing, UNIQ_KEY.
Properties that only the system may write are dropped: a client could reach other topics with them. What is the same for
the messages of a run is looked at once. Plays the part of preSend and msgCheck in AbstractSendMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from rocketpy.errors import BrokerError
from rocketpy.message import PropertyName
from rocketpy.seams import random_source, wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import (
    DLQ_PREFIX,
    NOT_ALLOWED_SEND,
    RETRY_PREFIX,
    TIMER_TOPIC,
    dlq_topic,
    group_of_retry_topic,
    is_valid_topic,
)
from rocketpy.wire.properties import decode_properties, encode_properties
from rocketpy.wire.steps import run_steps
from rocketpy.wire.sysflag import COMPRESSED, COMPRESSION_TYPE_MASK, INNER_BATCH, MULTI_TAGS, Permission, TopicSysFlag
from rocketpy_broker_sim.broker.delays.delay import TIMER_PROPERTIES, delay_level
from rocketpy_broker_sim.broker.putting.batch_items import SYSTEM_PROPERTIES, RefusedBatch, items_of
from rocketpy_broker_sim.broker.putting.put_pipeline import step
from rocketpy_broker_sim.broker.putting.store_stage import packed_address
from rocketpy_broker_sim.broker.transactions.half import is_half
from rocketpy_broker_sim.store.put_result import IncomingMessage

if TYPE_CHECKING:
    from rocketpy.wire.batch import BatchItem
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy.wire.headers.send import SendMessageRequestHeader
    from rocketpy_broker_sim.broker.identity import Identity
    from rocketpy_broker_sim.broker.putting.put_pipeline import Put, Stage
    from rocketpy_broker_sim.broker.tables.locks import QueueLocks
    from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["ADDED_PROPERTIES", "CLIENT_FLAGS", "NEVER_STORED", "ChecksView", "SendChecks"]

ADDED_PROPERTIES = frozenset({PropertyName.MSG_REGION, PropertyName.TRACE_SWITCH, PropertyName.CLUSTER})
_OURS = SYSTEM_PROPERTIES | ADDED_PROPERTIES
"""What no client sets: it is taken away before the broker sets it."""
_SPECIAL = frozenset({PropertyName.DELAY, PropertyName.TRANSACTION_PREPARED, PropertyName.INNER_NUM, *TIMER_PROPERTIES})
NEVER_STORED = (_OURS | _SPECIAL) - ADDED_PROPERTIES
"""What says where a message goes: it is taken away from a message that is stored where it was sent all the same."""
CLIENT_FLAGS = COMPRESSED | MULTI_TAGS | COMPRESSION_TYPE_MASK
"""Bits of the flag word that are the client's to set; the others say what a broker has done with the message."""


class ChecksView(NamedTuple):
    """What the first stage of the put pipeline asks."""

    config: BrokerConfig
    """The broker's settings."""
    identity: Identity
    """Its address, unique ids, and what it adds to properties."""
    topics: TopicTable
    """The topics that it has."""
    groups: SubscriptionGroupTable
    """The settings of its subscription groups."""
    locks: QueueLocks
    """Which client has locked which queue."""


class SendChecks:
    """Makes messages of requests.

    Args:
        broker: has the tables and what is added to messages.
        behind: the stages behind it: properties that they watch are there for them to look at.

    Attributes:
        watches: Names of the properties that it looks at itself.
    """

    watches = _OURS | _SPECIAL

    def __init__(self, broker: ChecksView, behind: Iterable[Stage] = ()) -> None:
        self._broker = broker
        self._watched = self.watches.union(*(stage.watches for stage in behind))

    @property
    def takes_transactions(self) -> bool:
        """Whether half messages may be sent."""
        return not self._broker.config.reject_transaction_message

    def take(self, puts: Sequence[Put]) -> None:
        """Check a run. Topics that are there are looked up once."""
        known: dict[str, TopicConfig] = {}
        step(puts, partial(self._take, known))

    def _take(self, known: dict[str, TopicConfig], put: Put) -> None:
        broker, sent = self._broker, put.sent
        assert sent is not None
        request, header = sent.request, sent.header
        topic = known.get(header.topic)
        if topic is None:
            topic = self.topic(header) or _new_topic(broker, header, put)
            known[header.topic] = topic
        sent.queue_id = _queue_id(header, topic)
        message = put.message = IncomingMessage(
            header.topic,
            sent.queue_id,
            request.body,
            "",
            header.flag,
            header.sys_flag & CLIENT_FLAGS,
            header.born_timestamp,
            packed_address(sent.connection.address),
            broker.identity.store_host,
            header.reconsume_times or 0,
        )
        properties = decode_properties(header.properties or "")
        if header.batch:
            _fill_batch(broker, header, sent.items, message, properties)
        else:
            _fill(broker, header, put, message, properties, self._watched)
        put.wait = properties.get(PropertyName.WAIT, "true").lower() == "true"
        sent.unique_key = properties.get(PropertyName.UNIQUE_KEY)

    def queue_id(self, header: SendMessageRequestHeader, put: Put) -> int:
        """The queue that a message is sent to; its topic is made where it may be, which `put` notes.

        Raises:
            BrokerError: it may not be sent there.
        """
        return _queue_id(header, self.topic(header) or _new_topic(self._broker, header, put))

    def topic(self, header: SendMessageRequestHeader) -> TopicConfig | None:
        """The topic that a message is sent to; None when there is none yet and it may be made.

        Raises:
            BrokerError: it may not be sent to.
        """
        config, name = self._broker.config, header.topic
        start = config.start_accept_send_request_time_stamp
        if start and wall_ms() < start:
            _refuse(ResponseCode.SYSTEM_ERROR, "the broker takes no messages yet (startAcceptSendRequestTimeStamp)")
        topic = self._broker.topics.get(name)
        if topic is not None and topic.order and not Permission.is_writable(config.broker_permission):
            _refuse(ResponseCode.NO_PERMISSION, f"sending to the broker {config.broker_name} is forbidden")
        if topic is None and not is_valid_topic(name):
            _refuse(
                ResponseCode.INVALID_PARAMETER, f"the topic {name[:127]!r} is blank, too long or has illegal characters"
            )
        if name in NOT_ALLOWED_SEND or name == TIMER_TOPIC or name.startswith(DLQ_PREFIX):
            _refuse(ResponseCode.NO_PERMISSION, f"sending to the topic {name} is forbidden")
        return topic


def _refuse(code: ResponseCode, remark: str) -> NoReturn:
    raise BrokerError.for_code(code, remark)


# --- where it goes -------------------------------------------------------------------------------------


def _new_topic(broker: ChecksView, header: SendMessageRequestHeader, put: Put) -> TopicConfig:
    is_retry = header.topic.startswith(RETRY_PREFIX)
    sys_flag = 0
    if header.unit_mode:
        sys_flag = TopicSysFlag.UNIT_SUB if is_retry else TopicSysFlag.UNIT
    topic = broker.topics.create_on_send(header.topic, header.default_topic, header.default_topic_queue_nums, sys_flag)
    if topic is None and is_retry:
        topic = broker.topics.create_retry(header.topic, 1, sys_flag=sys_flag)
    if topic is None:
        _refuse(
            ResponseCode.TOPIC_NOT_EXIST,
            f"the topic {header.topic} does not exist and is not made on first use: create it first",
        )
    put.new_topic = topic.topic_name
    return topic


def _queue_id(header: SendMessageRequestHeader, topic: TopicConfig) -> int:
    """The queue asked for; a negative one means any.

    Raises:
        BrokerError: the topic has no such queue.
    """
    queue_id = header.queue_id
    if queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
        _refuse(
            ResponseCode.INVALID_PARAMETER,
            f"queue id {queue_id} is illegal: {topic.topic_name} has {topic.write_queue_nums} queues to write",
        )
    return queue_id if queue_id >= 0 else random_source().randrange(max(1, topic.write_queue_nums))


# --- what is stored ------------------------------------------------------------------------------------


def _fill(
    broker: ChecksView,
    header: SendMessageRequestHeader,
    put: Put,
    message: IncomingMessage,
    properties: dict[str, str],
    watched: frozenset[str],
) -> None:
    """Complete a single message; may send it elsewhere: to the dead letters.

    Raises:
        BrokerError: the broker does not take it.
    """
    text = header.properties or ""
    if not message.body:
        _refuse(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
    if PropertyName.UNIQUE_KEY not in properties:
        properties[PropertyName.UNIQUE_KEY] = broker.identity.unique_ids.next()
        text = _joined(text, f"{PropertyName.UNIQUE_KEY}\x01{properties[PropertyName.UNIQUE_KEY]}\x02")
    if watched.isdisjoint(properties) and not message.topic.startswith(RETRY_PREFIX):
        message.properties = _joined(text, broker.identity.added_properties)
        return
    recalled = _recalled(broker, message.topic, properties)
    for name in _OURS:
        properties.pop(name, None)
    if recalled is not None:
        properties[PropertyName.TIMER_DEL_UNIQUE_KEY] = recalled
    properties.update(broker.identity.added_property_map)
    _refuse_by_properties(broker, message, properties)
    if message.topic.startswith(RETRY_PREFIX):
        _redirect_dead_letter(broker, header, put, message, properties)
    level = delay_level(properties)
    if level is None:
        _refuse(ResponseCode.MESSAGE_ILLEGAL, "the delay level is not a number")
    put.properties = properties


def _recalled(broker: ChecksView, topic: str, properties: dict[str, str]) -> str | None:
    """The key of the message that this one recalls, as clients did before RECALL_MESSAGE; None if it recalls nothing.

    Raises:
        BrokerError: messages may not be recalled here, or not from this topic.
    """
    key = properties.get(PropertyName.TIMER_DEL_UNIQUE_KEY)
    if key is None or not any(name in properties for name in TIMER_PROPERTIES):
        return None
    if not broker.config.recall_message_enable:
        _refuse(ResponseCode.NO_PERMISSION, "messages cannot be recalled here (recallMessageEnable=false)")
    if not key.startswith(f"{topic}+"):
        _refuse(ResponseCode.ILLEGAL_OPERATION, f"a message to the topic {topic} cannot recall one of another topic")
    return key


def _joined(text: str, more: str) -> str:
    return text + more if not text or text[-1] == "\x02" else f"{text}\x02{more}"


def _refuse_by_properties(broker: ChecksView, message: IncomingMessage, properties: dict[str, str]) -> None:
    """Refuse transactions where the settings say so, and what would never do what the client means by it."""
    config = broker.config
    if config.reject_transaction_message and is_half(properties, message.topic, message.reconsume_times):
        where = config.broker_ip1 or config.broker_name
        _refuse(ResponseCode.NO_PERMISSION, f"the broker[{where}] sending transaction message is forbidden")
    if PropertyName.INNER_NUM in properties:
        _refuse(ResponseCode.MESSAGE_ILLEGAL, "the message says it is a batch stored as one, and is none")


def _redirect_dead_letter(
    broker: ChecksView,
    header: SendMessageRequestHeader,
    put: Put,
    message: IncomingMessage,
    properties: dict[str, str],
) -> None:
    """Send a message that its group gave back too often to the dead letters of the group.

    A group that holds locks consumes in order: it tries again by itself, and gives back only what it has given up.
    """
    group = group_of_retry_topic(message.topic) or ""
    settings = broker.groups.find(group)
    if settings is None:
        _refuse(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"the consumer group {group} does not exist")
    most = settings.retry_max_times if header.max_reconsume_times is None else header.max_reconsume_times
    if message.reconsume_times <= most and not broker.locks.holds_any(group):
        return
    properties[PropertyName.DELAY] = "-1"
    message.topic, message.queue_id = dlq_topic(group), 0
    if message.topic not in broker.topics:
        put.new_topic = message.topic
    broker.topics.create_retry(message.topic, 1)


def _fill_batch(
    broker: ChecksView,
    header: SendMessageRequestHeader,
    items: Sequence[BatchItem] | RefusedBatch | None,
    message: IncomingMessage,
    properties: dict[str, str],
) -> None:
    """Complete a batch: its items are stored one by one, with consecutive offsets.

    The properties of the batch follow those of every item, as Apache's broker stores them.

    Raises:
        BrokerError: it is no batch, or may not go where it wants to.
    """
    if message.topic.startswith(RETRY_PREFIX):
        _refuse(ResponseCode.MESSAGE_ILLEGAL, f"a batch cannot go to the retry topic {message.topic}")
    if header.sys_flag & INNER_BATCH:
        _refuse(ResponseCode.MESSAGE_ILLEGAL, "batches are not stored as one message here")
    if isinstance(items, RefusedBatch):
        raise BrokerError.for_code(*items)
    if items is None:
        items = run_steps(items_of(message.body))
    message.batch = items
    own = {name: value for name, value in properties.items() if name not in SendChecks.watches}
    message.properties = encode_properties(own) + broker.identity.added_properties
