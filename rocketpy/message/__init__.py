"""What a user sends and receives: Message, MessageExt, MessageQueue, and the names of message properties.

Pure data: nothing here knows how a message looks in bytes. `rocketpy.wire.message_codec` makes the lazily decoded
MessageExt of a pull answer.
"""

from __future__ import annotations

from rocketpy.message.message import Message
from rocketpy.message.message_ext import MessageExt, RecordHead
from rocketpy.message.message_queue import MessageQueue
from rocketpy.message.property_names import KEY_SEPARATOR, RESERVED_PROPERTIES, PropertyName

__all__ = [
    "KEY_SEPARATOR",
    "RESERVED_PROPERTIES",
    "Message",
    "MessageExt",
    "MessageQueue",
    "PropertyName",
    "RecordHead",
]
