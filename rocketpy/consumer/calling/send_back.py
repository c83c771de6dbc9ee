"""SendBack: sends a message that could not be consumed back to a broker, so that the group gets it again later.

It first asks the broker that the message came from, which has it already, and if that fails sends it as a new message
to the retry topic, through any broker. A packed body travels as it is: nobody here may be able to unpack it. Plays the
part of sendMessageBack and sendMessageBackAsNormalMessage in DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING

import trio

from rocketpy.client.api import send as send_api
from rocketpy.client.preparing.outgoing import Outgoing, Preparer
from rocketpy.client.sends.send_drivers import send
from rocketpy.client.sends.sending import SendCore
from rocketpy.config import ProducerConfig
from rocketpy.config.producer import MOST_MESSAGE_SIZE
from rocketpy.errors import BrokerUnreachableError, RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import Message, MessageExt, PropertyName
from rocketpy.wire.compression import CompressionType, compress, compression_flag
from rocketpy.wire.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.wire.message_id import UniqueIds
from rocketpy.wire.names import retry_topic
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.stored_message import body_as_it_is

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
"""The level of a message without a listener: five minutes, by the brokers' default."""
_INNER_GROUP = "CLIENT_INNER_PRODUCER"
_LOGICAL_BROKER = "__syslo__"
_DROPPED_PROPERTIES = (
    PropertyName.TRANSACTION_PREPARED,
    PropertyName.CRC32,
    PropertyName.MIN_OFFSET,
    PropertyName.MAX_OFFSET,
    PropertyName.DELAY,
    PropertyName.TIMER_DELAY_SEC,
    PropertyName.TIMER_DELAY_MS,
    PropertyName.TIMER_DELIVER_MS,
)
"""Properties of the old message, such as its delivery time, that would be wrong on the new one."""
_CHOOSING = (PropertyName.SHARDING_KEY, PropertyName.MESSAGE_TYPE)
"""Properties by which a send would go to one queue only, or as a reply. What goes back goes to any queue."""
_EMPTY = compress(b""), compression_flag(CompressionType.ZLIB)
"""An empty body, as it travels: brokers take no message without one, but do not look into one that is packed."""


class SendBack:
    """Sends messages back for one group.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.

    Attributes:
        as_new_message: how many were sent as new messages.
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
        # Until its route is known, assume that the retry topic has one queue, the default.
        # The message's producer and the broker that stored it have already decided how large it may be.
        producer = ProducerConfig.of(
            config, group=_INNER_GROUP, default_topic_queue_nums=1, max_message_size=MOST_MESSAGE_SIZE
        )
        ids = UniqueIds(ipaddress.ip_address(client.network.local_ip()).packed, os.getpid())
        self._preparer = Preparer(producer, ids)
        self._core = SendCore(client, producer)

    async def send_back(self, message: MessageExt, delay_level: int) -> bool:
        """Send a message back, to be retried.

        Args:
            message: the message.
            delay_level: when it comes again; 0 leaves that to the broker, and a negative level makes it a dead letter.

        Returns:
            False if no broker took it, which is logged.
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
        """Send a message without a listener to the end of the retry topic, without counting an attempt.

        It goes there as a new message, because a broker that takes a message back counts an attempt.

        Returns:
            False if no broker took it, which is logged.
        """
        return await self._as_new_message(self._copy(message, message.reconsume_times, WAIT_DELAY_LEVEL), message)

    async def dead_letter(self, message: MessageExt) -> bool:
        """Have a message that failed too often in an orderly consumer put into the dead-letter queue.

        It goes to the retry topic as a new message that has used up its attempts.

        Returns:
            False if no broker took it, which is logged.
        """
        copy = self._copy(message, message.reconsume_times + 1, None)
        most = min(self._max_reconsume_times, message.reconsume_times)
        copy.wire_properties = {**copy.wire_properties, PropertyName.MAX_RECONSUME_TIMES: str(most)}
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
            outgoing = self._outgoing(copy, message)
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

    def _outgoing(self, copy: Message, message: MessageExt) -> Outgoing:
        """The copy, ready to be sent to any queue, with the body of the message."""
        body, packed = body_as_it_is(message)
        if not body:
            body, packed = _EMPTY
        copy.body = body
        kept = {name: copy.wire_properties.pop(name) for name in _CHOOSING if name in copy.wire_properties}
        outgoing = self._preparer.one(copy)
        outgoing.properties += encode_properties(kept, refuse_separators=True)
        if packed:
            outgoing.body, outgoing.sys_flag = body, packed
        return outgoing

    def _failed_copy(self, message: MessageExt, delay_level: int) -> Message:
        """The copy to send after a failed attempt. A broker makes a dead letter of it if its attempts are used up."""
        if delay_level < 0:
            return self._copy(message, max(self._max_reconsume_times, message.reconsume_times) + 1, None)
        return self._copy(message, message.reconsume_times + 1, _FIRST_DELAY_LEVEL + message.reconsume_times)

    def _copy(self, message: MessageExt, attempts: int, delay_level: int | None) -> Message:
        """The message as a new one for the retry topic, with properties that tell the broker its attempts.

        The body is put into it when it is sent.
        """
        copy = Message(retry_topic(self._group), _EMPTY[0])
        copy.flag = message.flag
        properties = dict(message.wire_properties)
        properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, message.message_id)
        properties[PropertyName.RETRY_TOPIC] = message.topic
        properties[PropertyName.RECONSUME_TIME] = str(attempts)
        properties[PropertyName.MAX_RECONSUME_TIMES] = str(self._max_reconsume_times)
        for name in _DROPPED_PROPERTIES:
            properties.pop(name, None)
        if delay_level is not None:
            properties[PropertyName.DELAY] = str(delay_level)
        copy.wire_properties = properties
        return copy
