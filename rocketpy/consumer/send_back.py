"""Giving a message back that could not be consumed, so that the group gets it again later.

First by asking the broker that it came from, which has it already; failing that, as a new message to the retry topic,
through any broker. Plays the part of sendMessageBack and sendMessageBackAsNormalMessage in DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING

import trio

from rocketpy.client.api import send as send_api
from rocketpy.client.outgoing import Preparer
from rocketpy.client.send_drivers import send
from rocketpy.client.sending import SendCore
from rocketpy.config import ProducerConfig
from rocketpy.errors import BrokerUnreachableError, RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import Message, MessageExt, PropertyName
from rocketpy.wire.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.wire.message_id import UniqueIds
from rocketpy.wire.names import retry_topic

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PushConsumerConfig

__all__ = ["SendBack"]

logger = get_logger(__name__)

_TIMEOUT = 5.0
_DEFAULT_MAX_RECONSUME_TIMES = 16
_WITHOUT_LIMIT = 2**31 - 1
_FIRST_DELAY_LEVEL = 3
WAIT_DELAY_LEVEL = 9
"""Five minutes as brokers are set up."""
_INNER_GROUP = "CLIENT_INNER_PRODUCER"
_LOGICAL_BROKER = "__syslo__"
_OF_THE_OLD_ONE = (
    PropertyName.TRANSACTION_PREPARED,
    PropertyName.CRC32,
    PropertyName.MIN_OFFSET,
    PropertyName.MAX_OFFSET,
    PropertyName.DELAY,
    PropertyName.TIMER_DELAY_SEC,
    PropertyName.TIMER_DELAY_MS,
    PropertyName.TIMER_DELIVER_MS,
)
"""Properties that say nothing about the new message, or when the old one was to be delivered."""


class SendBack:
    """Gives messages back for one group.

    Args:
        client: how to reach brokers.
        config: of the consumer.

    Attributes:
        as_new_message: how many went as new messages, for statistics.
    """

    def __init__(self, client: MQClientInstance, config: PushConsumerConfig) -> None:
        self.as_new_message = 0
        self._seldom = Seldom(logger, clock=trio.current_time)
        self._client = client
        self._group = config.group
        most = config.max_reconsume_times
        if most < 0:
            most = _WITHOUT_LIMIT if config.orderly else _DEFAULT_MAX_RECONSUME_TIMES
        self._max_reconsume_times = most
        # A retry topic whose route is not known yet has one queue, unless its group was given more.
        producer = ProducerConfig.of(config, group=_INNER_GROUP, default_topic_queue_nums=1)
        ids = UniqueIds(ipaddress.ip_address(client.network.local_ip()).packed, os.getpid())
        self._preparer = Preparer(producer, ids)
        self._core = SendCore(client, producer)

    async def send_back(self, message: MessageExt, delay_level: int) -> bool:
        """Give a message back. False, with a word in the log, when no broker took it.

        A negative level makes a dead letter of it, on either way.
        """
        try:
            await self._ask_its_broker(message, delay_level)
        except RocketMQError as error:
            self._seldom.info(
                "as new",
                "%r is sent to the retry topic as a new message, because its broker did not take it back: %s",
                message,
                error,
            )
            return await self._as_new_message(self._failed_copy(message, delay_level), message)
        return True

    async def put_off(self, message: MessageExt) -> bool:
        """Let a message of the retry topic that nobody has tried come again later, its attempts as they are.

        It goes to the end of the retry topic as a new message. A broker that is asked to take it back would count an
        attempt. False, with a word in the log, when no broker took it.
        """
        return await self._as_new_message(self._copy(message, message.reconsume_times, WAIT_DELAY_LEVEL), message)

    async def dead_letter(self, message: MessageExt) -> bool:
        """Have a message put into the dead-letter queue that was consumed in order, and failed too often.

        It goes to the retry topic as a new message that has used up its attempts. False, with a word in the log, when
        no broker took it.
        """
        copy = self._copy(message, message.reconsume_times + 1, None)
        most = min(self._max_reconsume_times, message.reconsume_times)
        copy.properties = {**copy.properties, PropertyName.MAX_RECONSUME_TIMES: str(most)}
        return await self._as_new_message(copy, message)

    async def _ask_its_broker(self, message: MessageExt, delay_level: int) -> None:
        address = None
        if not message.broker_name.startswith(_LOGICAL_BROKER):
            address = self._client.routes.broker_address(message.broker_name)
        if address is None:
            raise BrokerUnreachableError(f"the broker {message.broker_name} has no master now", topic=message.topic)
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=self._max_reconsume_times,
            bname=message.broker_name,
        )
        await send_api.send_back(self._client.pool, address, header, timeout=_TIMEOUT)

    async def _as_new_message(self, copy: Message, message: MessageExt) -> bool:
        try:
            outgoing = self._preparer.one(copy)
            await send(
                self._core,
                outgoing,
                choice=None,
                tries=1 + self._core.config.retry_times_when_send_failed,
                timeout=self._core.config.send_timeout,
            )
        except RocketMQError as error:
            self._seldom.warning("kept", "no broker takes %r back, so this consumer retries it: %s", message, error)
            return False
        self.as_new_message += 1
        return True

    def _failed_copy(self, message: MessageExt, delay_level: int) -> Message:
        """After an attempt that failed, or as a dead letter: a broker makes one of what has used up its attempts."""
        if delay_level < 0:
            return self._copy(message, max(self._max_reconsume_times, message.reconsume_times) + 1, None)
        return self._copy(message, message.reconsume_times + 1, _FIRST_DELAY_LEVEL + message.reconsume_times)

    def _copy(self, message: MessageExt, attempts: int, delay_level: int | None) -> Message:
        """The message as a new one for the retry topic. The broker counts its attempts from these properties."""
        copy = Message(retry_topic(self._group), message.body)
        copy.flag = message.flag
        properties = dict(message.properties)
        properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, message.message_id)
        properties[PropertyName.RETRY_TOPIC] = message.topic
        properties[PropertyName.RECONSUME_TIME] = str(attempts)
        properties[PropertyName.MAX_RECONSUME_TIMES] = str(self._max_reconsume_times)
        for name in _OF_THE_OLD_ONE:
            properties.pop(name, None)
        if delay_level is not None:
            properties[PropertyName.DELAY] = str(delay_level)
        copy.properties = properties
        return copy
