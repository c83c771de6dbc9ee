"""The three texts in the answer to a pop, which say which of the messages are from where.

Each is a list of items joined by semicolons, of three parts with blanks between them: the kind of the topic, the queue
(or, for a message popped in order, "qo", the queue, "%" and its offset), and what is said about it. Plays the part of
the half of ExtraInfoUtil that is about one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.catalogue.receipt_handle import TopicKind

__all__ = [
    "decode_message_offsets",
    "decode_order_counts",
    "decode_start_offsets",
    "encode_message_offsets",
    "encode_order_counts",
    "encode_start_offsets",
    "order_key",
]

_Value = TypeVar("_Value")
_Queue = tuple[TopicKind, int]
_MAX_ITEMS = 4096


def order_key(queue_id: int, offset: int) -> str:
    """How the text about redeliveries names one message."""
    return f"qo{queue_id}%{offset}"


def encode_start_offsets(offsets: Mapping[_Queue, int]) -> str:
    """`startOffsetInfo`: by kind of topic and queue, the offset from which receipts count."""
    return ";".join(f"{kind.value} {queue} {offset}" for (kind, queue), offset in offsets.items())


def encode_message_offsets(offsets: Mapping[_Queue, Sequence[int]]) -> str:
    """`msgOffsetInfo`: by kind of topic and queue, the offsets of the messages in the body."""
    items = ((kind.value, queue, ",".join(map(str, each))) for (kind, queue), each in offsets.items())
    return ";".join(f"{kind} {queue} {each}" for kind, queue, each in items)


def encode_order_counts(counts: Mapping[tuple[TopicKind, str], int]) -> str:
    """`orderCountInfo`: by kind of topic and queue or message, how often it was delivered before."""
    return ";".join(f"{kind.value} {key} {count}" for (kind, key), count in counts.items())


def decode_start_offsets(text: str) -> dict[_Queue, int]:
    """Read `startOffsetInfo`.

    Raises:
        RemoteProtocolError: it is none.
    """
    return {(kind, int(queue)): offset for (kind, queue), offset in _decode(text, _int).items()}


def decode_message_offsets(text: str) -> dict[_Queue, list[int]]:
    """Read `msgOffsetInfo`.

    Raises:
        RemoteProtocolError: it is none.
    """
    found = _decode(text, lambda value: [_int(each) for each in value.split(",")])
    return {(kind, int(queue)): offsets for (kind, queue), offsets in found.items()}


def decode_order_counts(text: str) -> dict[tuple[TopicKind, str], int]:
    """Read `orderCountInfo`; `order_key` makes the names of messages in it.

    Raises:
        RemoteProtocolError: it is none.
    """
    return _decode(text, _int, named=True)


def _decode(text: str, read: Callable[[str], _Value], *, named: bool = False) -> dict[tuple[TopicKind, str], _Value]:
    found: dict[tuple[TopicKind, str], _Value] = {}
    try:
        for item in text.split(";", _MAX_ITEMS) if text else []:
            kind, key, value = item.split(" ")
            if not named:
                _int(key)
            place = TopicKind(kind), key
            if place in found:
                raise ValueError(f"{key} stands there twice")
            found[place] = read(value)
    except ValueError as exc:
        raise RemoteProtocolError(f"not what a pop answers about its messages: {text!r:.100} ({exc})") from exc
    return found


def _int(text: str) -> int:
    if len(text) > 20 or not text.isascii() or not text.removeprefix("-").isdigit():
        raise ValueError(f"{text!r:.30} is not a number")
    return int(text)
