"""Resending: sends stored messages again, as new messages with the same unique ids."""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING

from rocketpy.client.preparing.outgoing import Preparer
from rocketpy.client.sends.send_drivers import send
from rocketpy.client.sends.sending import SendCore
from rocketpy.config import ProducerConfig
from rocketpy.config.producer import MOST_MESSAGE_SIZE
from rocketpy.message import Message, PropertyName
from rocketpy.message.property_names import RESERVED_PROPERTIES
from rocketpy.wire.message_id import UniqueIds

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageExt
    from rocketpy.results import SendResult

__all__ = ["Resender", "copied"]

_INNER_GROUP = "CLIENT_INNER_PRODUCER"
_KEPT = frozenset(
    {
        PropertyName.KEYS,
        PropertyName.TAGS,
        PropertyName.UNIQUE_KEY,
        PropertyName.SHARDING_KEY,
        PropertyName.RETRY_TOPIC,
        PropertyName.ORIGIN_MESSAGE_ID,
        PropertyName.CORRELATION_ID,
        PropertyName.BUYER_ID,
    }
)
_DROPPED_PROPERTIES = (RESERVED_PROPERTIES - _KEPT) | {
    PropertyName.WAIT,
    PropertyName.CRC32,
    PropertyName.MAX_OFFSET,
    PropertyName.DLQ_ORIGIN_TOPIC,
    PropertyName.DLQ_ORIGIN_MESSAGE_ID,
}
"""Properties that describe the stored message and would be wrong on the new one."""


class Resender:
    """Sends stored messages again.

    Args:
        client: an open client.
    """

    def __init__(self, client: MQClientInstance) -> None:
        # Its producer and its broker have already accepted the size of the message.
        config = ProducerConfig.of(client.config, group=_INNER_GROUP, max_message_size=MOST_MESSAGE_SIZE)
        self._core = SendCore(client, config)
        ids = UniqueIds(ipaddress.ip_address(client.network.local_ip()).packed, os.getpid())
        self._preparer = Preparer(config, ids)

    async def send(self, message: Message) -> SendResult:
        """Send a message that `copied` returned.

        Raises:
            SendError: every attempt failed; with one attempt, its own error.
            RouteNotFoundError: the topic does not exist, or cannot be written.
        """
        config = self._core.config
        tries = 1 + config.retry_times_when_send_failed
        outgoing = self._preparer.one(message)
        return await send(self._core, outgoing, choice=None, tries=tries, timeout=config.send_timeout)


def copied(message: MessageExt) -> Message:
    """Return a new message with the body, flag, tags, keys, unique id and user properties of a stored one."""
    copy = Message(message.topic, message.body)
    copy.flag = message.flag
    copy.wire_properties = {
        name: value for name, value in message.wire_properties.items() if name not in _DROPPED_PROPERTIES
    }
    return copy
