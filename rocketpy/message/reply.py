"""Replies: the message that answers a request, and how either is told by its properties. Pure.

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


class Reply(Message):
    """A message that answers a request. `create_reply_message` makes it; any producer sends it, alone."""

    __slots__ = ("broker_name",)

    broker_name: str
    """The broker that the request came from. The client that asked is known to it, and not to each of its cluster."""


def reply_topic(cluster: str) -> str:
    """The topic that the replies to requests of a cluster go to."""
    return f"{cluster}_REPLY_TOPIC"


def create_reply_message(
    request: MessageExt,
    body: bytes = b"",
    *,
    value: Any = NO_VALUE,
    tags: str | None = None,
    keys: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
) -> Message:
    """Make the reply to a request that was consumed. Send it with any producer of the same cluster, by itself.

    Args:
        request: What was consumed.
        body: The payload, at least one byte.
        value: Instead of a body, a value that the serializer of the producer turns into one.
        tags: One tag.
        keys: Business keys.
        properties: More names and values, all text.

    Raises:
        ConfigError: The message is no request, or the reply cannot be sent.
    """
    if not isinstance(request, MessageExt):
        raise ConfigError(f"give the MessageExt that was consumed, not {request!r:.100}")
    wanted = (PropertyName.CLUSTER, PropertyName.CORRELATION_ID, PropertyName.REPLY_TO_CLIENT)
    missing = [name for name in wanted if not request.properties.get(name)]
    if missing:
        raise ConfigError(
            f"{request!r} cannot be replied to, because it has no property {', '.join(missing)}: it was sent with send "
            "and not with request, or was stored by a broker before 4.6"
        )
    cluster, correlation_id, asker = [request.properties[name] for name in wanted]
    reply = Reply(reply_topic(cluster), body, value=value, tags=tags, keys=keys, properties=properties)
    reply.broker_name = request.broker_name
    reply.properties[PropertyName.MESSAGE_TYPE] = REPLY
    reply.properties[PropertyName.CORRELATION_ID] = correlation_id
    reply.properties[PropertyName.REPLY_TO_CLIENT] = asker
    ttl = request.properties.get(PropertyName.TTL)
    if ttl:
        reply.properties[PropertyName.TTL] = ttl
    return reply


def as_request(message: Message, *, correlation_id: str, client_id: str, ttl: int) -> Message:
    """A copy of a message that asks for a reply.

    Args:
        message: What to send.
        correlation_id: Names the request; the reply carries it.
        client_id: The client that asks.
        ttl: Milliseconds for which it waits for a reply.

    Raises:
        ConfigError: it is no message, or a reply.
    """
    if not isinstance(message, Message):
        raise ConfigError(f"give a Message, not {message!r:.100}")
    if message.properties.get(PropertyName.MESSAGE_TYPE) == REPLY:
        raise ConfigError("a reply is not answered: send it with send")
    made = Message.__new__(Message)
    made.topic, made.body, made.flag = message.topic, message.body, message.flag
    made.properties = message.properties | {
        PropertyName.CORRELATION_ID: correlation_id,
        PropertyName.REPLY_TO_CLIENT: client_id,
        PropertyName.TTL: str(ttl),
    }
    return made
