"""Messages as lines of JSON, and back. Pure.

What is printed can be sent again: the members that describe where a message was stored are ignored when it is read.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from rocketpy.cli.traffic.bodies import body_of, text_of
from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageExt

__all__ = ["line_of", "message_of", "record_of"]

_DESCRIBED = frozenset(
    {
        "topic",
        "broker",
        "queueId",
        "queueOffset",
        "storeTimestamp",
        "bornTimestamp",
        "messageId",
        "offsetMessageId",
        "reconsumeTimes",
        "bodyError",
        "bornHost",
        "storeHost",
        "storeSize",
        "systemProperties",
    }
)
"""What only a stored message has."""
_OWN = ("body", "bodyBase64", "tags", "keys", "properties", "shardingKey", "delay", "delayLevel", "deliverAt")
"""What a message to send may have."""
_KNOWN = _DESCRIBED.union(_OWN)
_encode = json.JSONEncoder(separators=(", ", ": ")).encode


def record_of(message: MessageExt) -> dict[str, Any]:
    """A message as the members of a JSON object."""
    record: dict[str, Any] = {
        "topic": message.topic,
        "broker": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "storeTimestamp": message.store_timestamp,
        "bornTimestamp": message.born_timestamp,
        "messageId": message.message_id,
        "offsetMessageId": message.offset_message_id,
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": dict(message.properties),
    }
    if message.sharding_key is not None:
        record["shardingKey"] = message.sharding_key
    if message.reconsume_times:
        record["reconsumeTimes"] = message.reconsume_times
    body = body_of(message)
    if not isinstance(body, bytes):
        record["bodyError"] = str(body)
    elif (text := text_of(body)) is not None:
        record["body"] = text
    else:
        record["bodyBase64"] = base64.b64encode(body).decode()
    return record


def line_of(message: MessageExt) -> str:
    """A message as one line of JSON, in ASCII, so that nothing in it controls a terminal."""
    return _encode(record_of(message))


# --- back ----------------------------------------------------------------------------------------------


def message_of(topic: str, line: bytes) -> Message:
    """A message to send, from a line of JSON.

    Raises:
        ConfigError: the line is not a JSON object, has an unknown member, or cannot be sent as it is.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise ConfigError(f"expected a JSON object with a body, not {record!r:.60}")
    unknown = record.keys() - _KNOWN
    if unknown:
        raise ConfigError(f"unknown member {min(unknown)!r:.60}: a message may have {', '.join(_OWN)}")
    if "bodyError" in record:
        raise ConfigError("this message was printed without its body, which could not be unpacked")
    return Message(
        topic,
        _body(record),
        tags=record.get("tags") or None,
        keys=record.get("keys") or (),
        properties=record.get("properties") or {},
        sharding_key=record.get("shardingKey"),
        delay=record.get("delay"),
        delay_level=record.get("delayLevel") or 0,
        deliver_at=record.get("deliverAt"),
    )


def _body(record: Mapping[str, Any]) -> bytes:
    if ("body" in record) == ("bodyBase64" in record):
        raise ConfigError("a message must have either body or bodyBase64")
    if "bodyBase64" in record:
        packed = record["bodyBase64"]
        try:
            return base64.b64decode(packed, validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise ConfigError(f"bodyBase64 is not base64: {error}") from None
    body = record["body"]
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)  # an object stands for its JSON
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigError("the body has a lone surrogate, which UTF-8 cannot express: use bodyBase64") from None
