"""Replies: the messages that answer requests, and the properties of both. Pure.

Plays the part of MessageUtil.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rocketpy.errors import ConfigError
from rocketpy.message.message import Message
from rocketpy.message.message_ext import MessageExt
from rocketpy.message.property_names import PropertyName
from rocketpy.message.values import NO_VALUE

__all__ = ["REPLY", "Reply", "as_request", "create_reply_message", "reply_topic"]

REPLY: Final = "reply"
"""The value of MSG_TYPE that makes a message a reply."""


_DELAYS: Final = frozenset(
    {
        PropertyName.DELAY,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELIVER_MS,
    }
)


class Reply(Message):
    """A message that replies to a request. `create_reply_message` makes it; it cannot be sent in a batch."""

    __slots__ = ("broker_name",)

    broker_name: str
    """The broker of the request. It knows the client that made the request; other brokers may not."""


def reply_topic(cluster: str) -> str:
    """The topic of the replies to requests of a cluster."""
    return f"{cluster}_REPLY_TOPIC"


def create_reply_message(
    request: MessageExt,
    body: bytes | str = b"",
    *,
    value: Any = NO_VALUE,
    tags: str | None = None,
    keys: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
) -> Message:
    """Make the reply to a consumed request. Send it with any producer of the same cluster, but not in a batch.

    Args:
        request: The message that was consumed.
        body: The payload, at least one byte. A str is encoded as UTF-8.
        value: Instead of a body, a value that the serializer of the producer encodes.
        tags: One tag.
        keys: Business keys.
        properties: Your own properties; names and values are str.

    Raises:
        ConfigError: The message is not a request, or the reply cannot be sent.
    """
    if not isinstance(request, MessageExt):
        raise ConfigError(f"expected the MessageExt that was consumed, got {request!r:.100}")
    wanted = (PropertyName.CLUSTER, PropertyName.CORRELATION_ID, PropertyName.REPLY_TO_CLIENT)
    missing = [name for name in wanted if not request.wire_properties.get(name)]
    if missing:
        raise ConfigError(
            f"{request!r} is not a request, because it has no property {', '.join(missing)}: it was sent with send, "
            "not with request, or was stored by a broker older than 4.6"
        )
    cluster, correlation_id, client_id = [request.wire_properties[name] for name in wanted]
    reply = Reply(reply_topic(cluster), body, value=value, tags=tags, keys=keys, properties=properties)
    reply.broker_name = request.broker_name
    reply.wire_properties[PropertyName.MESSAGE_TYPE] = REPLY
    reply.wire_properties[PropertyName.CORRELATION_ID] = correlation_id
    reply.wire_properties[PropertyName.REPLY_TO_CLIENT] = client_id
    ttl = request.wire_properties.get(PropertyName.TTL)
    if ttl:
        reply.wire_properties[PropertyName.TTL] = ttl
    return reply


def as_request(message: Message, *, correlation_id: str, client_id: str, ttl: int) -> Message:
    """Return a copy of a message as a request.

    Args:
        message: The message.
        correlation_id: The correlation id, which the reply repeats.
        client_id: The id of the client that makes the request.
        ttl: Milliseconds for which the client waits for a reply.

    Raises:
        ConfigError: it is not a message, is a reply, or is delayed.
    """
    if not isinstance(message, Message):
        raise ConfigError(f"expected a Message, got {message!r:.100}")
    if message.wire_properties.get(PropertyName.MESSAGE_TYPE) == REPLY:
        raise ConfigError("the message is a reply, which cannot be a request: send it with send")
    if not _DELAYS.isdisjoint(message.wire_properties):
        raise ConfigError(
            "a request cannot be delayed, because its reply is waited for at once: leave out delay_level, delay and "
            "deliver_at, or send it with send"
        )
    made = Message.__new__(Message)
    made.topic, made.body, made.flag = message.topic, message.body, message.flag
    made.wire_properties = message.wire_properties | {
        PropertyName.CORRELATION_ID: correlation_id,
        PropertyName.REPLY_TO_CLIENT: client_id,
        PropertyName.TTL: str(ttl),
    }
    return made
