"""Several messages in one send: the rules, the body of SEND_BATCH_MESSAGE, and the batch stored as one message.

Plays the part of MessageBatch and of the batch half of MessageDecoder.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final

from rocketpy.errors import ConfigError, LocalProtocolError
from rocketpy.message import Message, PropertyName
from rocketpy.message.reply import REPLY
from rocketpy.wire.batch_columns import FIXED_SIZE, BatchItem, decode_columns
from rocketpy.wire.message_columns import MessageColumns
from rocketpy.wire.names import is_retry_topic
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE, encode_properties

__all__ = [
    "BatchItem",
    "batch_item_size",
    "check_batch",
    "decode_batch",
    "encode_batch",
    "encode_batch_items",
]

_HEAD = struct.Struct(">iiiii")
_LENGTH_16 = struct.Struct(">h")
_TIMERS = frozenset({PropertyName.TIMER_DELAY_MS, PropertyName.TIMER_DELAY_SEC, PropertyName.TIMER_DELIVER_MS})
_SPECIAL = _TIMERS | {PropertyName.DELAY, PropertyName.MESSAGE_TYPE}
_WAIT: Final = PropertyName.WAIT
"""At hand: it is asked for with every message."""
_ID_NAME: Final = PropertyName.UNIQUE_KEY
_UNIQUE_KEY = b"%b\x01" % _ID_NAME.encode()


def check_batch(messages: Sequence[Message]) -> None:
    """Refuse messages that cannot travel together.

    Raises:
        ConfigError: there is none, or they differ in topic or in whether to wait for the store, or one is delayed, is a
            reply, or goes to a retry topic.
    """
    if not messages:
        raise ConfigError("a batch needs at least one message")
    topic, wait = messages[0].topic, messages[0].wire_properties.get(_WAIT)
    if is_retry_topic(topic):
        raise ConfigError(f"messages to the retry topic {topic} cannot be sent as a batch")
    usual = _SPECIAL.isdisjoint
    for message in messages:
        if message.topic != topic:
            raise ConfigError(f"a batch goes to one topic, this one to {topic} and {message.topic}")
        properties = message.wire_properties
        if properties.get(_WAIT) == wait and usual(properties):
            continue
        if message.wait_store_ok != messages[0].wait_store_ok:
            raise ConfigError("the messages of a batch differ in wait_store_ok: give them the same value")
        if not _TIMERS.isdisjoint(properties) or message.delay_level > 0:
            raise ConfigError("a batch cannot hold delayed messages: send them one by one")
        if properties.get(PropertyName.MESSAGE_TYPE) == REPLY:
            raise ConfigError("a batch cannot hold replies to requests: send them one by one")


def encode_batch(messages: Sequence[Message], unique_ids: Iterable[str] | None = None) -> bytes:
    """The body of a batch request; the rules are those of `check_batch`, which the caller has asked.

    Args:
        messages: What the batch holds.
        unique_ids: One for each message; it is put after the properties of those that have none of their own.

    Raises:
        LocalProtocolError: the properties of a message cannot be encoded, or are too long.
    """
    if type(messages) is MessageColumns:
        return _of_columns(messages, unique_ids)
    properties = [message.wire_properties for message in messages]
    if properties and properties[0] != properties[-1]:
        ids = None if unique_ids is None else list(unique_ids)
        return _in_columns(messages, properties, ids) or _one_by_one(messages, ids)
    return _one_by_one(messages, unique_ids)


def _of_columns(columns: MessageColumns, unique_ids: Iterable[str] | None) -> bytes:
    """The batch of messages that are columns already."""
    ids = columns.unique_ids if columns.unique_ids is not None or unique_ids is None else list(unique_ids)
    texts = columns.properties
    packed = None if ids is None else _of_same_length(texts, ids)
    if packed is None:
        if ids is not None:
            texts = [f"{text}{_ID_NAME}\x01{unique_id}\x02" for text, unique_id in zip(texts, ids, strict=True)]
        packed = _all_encoded(texts)
    return _packed(columns.bodies, None, packed) or _one_by_one(list(columns), ids)


def _of_same_length(texts: Sequence[str], ids: Sequence[str]) -> Sequence[bytes] | None:
    """Encoded properties with unique ids behind them, cut out of one text; None unless they are ASCII of one length."""
    count = len(texts)
    if len(ids) != count or len(set(map(len, texts))) != 1 or len(set(map(len, ids))) != 1:
        return None
    parts = [""] * (4 * count)
    parts[0::4], parts[2::4] = texts, ids
    parts[1::4], parts[3::4] = [f"{_ID_NAME}\x01"] * count, ["\x02"] * count
    joined = "".join(parts)
    if not joined.isascii():
        return None
    return [text for (text,) in struct.iter_unpack(f"{len(joined) // count}s", joined.encode())]


def _in_columns(
    messages: Sequence[Message], properties: Sequence[dict[str, str]], unique_ids: Sequence[str] | None
) -> bytes | None:
    """The batch of messages with the same properties but other values, such as keys; None where they are not like that,
    or one is at fault.

    Part after part of all messages together, so that the loops are the interpreter's own.
    """
    names = tuple(properties[0])
    if len(set(map(tuple, properties))) > 1:
        return None
    texts = _texts(names, properties, unique_ids)
    if texts is None:
        return None
    bodies, flags = [message.body for message in messages], [message.flag for message in messages]
    return _packed(bodies, flags, _all_encoded(texts))


def _all_encoded(texts: Iterable[str]) -> Sequence[bytes] | None:
    """Texts as bytes; None if one cannot be encoded."""
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return None


def _packed(bodies: Sequence[bytes], flags: Sequence[int] | None, packed: Sequence[bytes] | None) -> bytes | None:
    """The batch of messages with these bodies, flags (0 if None) and properties; None if one does not fit."""
    if packed is None:
        return None
    try:
        sizes, body_sizes = list(map(len, packed)), list(map(len, bodies))
        lengths = {size: _LENGTH_16.pack(size) for size in set(sizes)}
        items = [b""] * (4 * len(bodies))
        items[0::4] = _heads(sizes, body_sizes, flags)
        items[1::4] = bodies
        items[2::4] = [*lengths.values()] * len(sizes) if len(lengths) == 1 else map(lengths.__getitem__, sizes)
        items[3::4] = packed
        return b"".join(items)
    except struct.error:
        return None


def _heads(sizes: Sequence[int], body_sizes: Sequence[int], flags: Sequence[int] | None) -> Iterable[bytes]:
    """What stands before the bodies. Often there are few different ones."""
    if flags is None or (set(map(type, flags)) == {int} and not any(flags)):
        kinds = len(set(sizes)) * len(set(body_sizes))
        if kinds == 1:
            return [_Heads()[sizes[0], body_sizes[0]]] * len(sizes)
        if kinds < len(sizes) // 2:
            return map(_Heads().__getitem__, zip(sizes, body_sizes, strict=True))
    totals = [FIXED_SIZE + size + body_size for size, body_size in zip(sizes, body_sizes, strict=True)]
    return map(_HEAD.pack, totals, repeat(0), repeat(0), repeat(0) if flags is None else flags, body_sizes)


class _Heads(dict[tuple[int, int], bytes]):
    """Heads of items without a flag, by the sizes of properties and body."""

    def __missing__(self, sizes: tuple[int, int]) -> bytes:
        head = self[sizes] = _HEAD.pack(FIXED_SIZE + sum(sizes), 0, 0, 0, sizes[1])
        return head


def _texts(
    names: Sequence[str], properties: Sequence[Mapping[str, str]], unique_ids: Sequence[str] | None
) -> list[str] | None:
    """Encoded properties that have these names; None when a value may be none, or one holds a separator.

    Tuples of values are made one after the other: to keep them all would keep the garbage collector busy.
    """
    if unique_ids is not None and PropertyName.UNIQUE_KEY not in names:
        names = (*names, PropertyName.UNIQUE_KEY)
        form = _form(names)
        pairs = zip(properties, unique_ids, strict=False)
        texts = [form % (*each.values(), unique_id) for each, unique_id in pairs]
    else:
        form = _form(names)
        texts = [form % tuple(each.values()) for each in properties]
    joined, right = "".join(texts), len(names) * len(texts)
    if "\x01None\x02" in joined or not joined.count("\x01") == joined.count("\x02") == right:
        return None
    return texts


def _form(names: Iterable[str]) -> str:
    """Encoded properties with places for the values."""
    return "".join([name.replace("%", "%%") + "\x01%s\x02" for name in names])


def _one_by_one(messages: Sequence[Message], unique_ids: Iterable[str] | None) -> bytes:
    """One pass with as little as possible for each message: properties like those of the message before are not encoded
    again, nor are lengths and flag when they are the same.
    """
    parts: list[bytes] = []
    known: dict[str, str] | None = None
    text, end, head, middle = b"", b"", b"", b""
    shape: tuple[int, int, int] | None = None
    for message, unique_id in zip(messages, repeat("") if unique_ids is None else unique_ids, strict=False):
        try:
            properties, body = message.wire_properties, message.body
            if properties != known:
                known, shape = properties, None
                text, end = _encoded(properties, named=unique_ids is not None)
            name = unique_id.encode() if end else b""
            this = len(body), len(name), message.flag
            if this != shape:
                shape = this
                head, middle = _around(*this, text, end)
            parts += (head, body, middle, name, end)
        except (struct.error, UnicodeEncodeError) as exc:
            raise _does_not_fit(message, exc) from exc
    return b"".join(parts)


def _encoded(properties: Mapping[str, str], *, named: bool) -> tuple[bytes, bytes]:
    """The properties of an item up to the unique id that is put after them, and what ends it; without one, nothing."""
    text = encode_properties(properties, refuse_separators=True).encode()
    if not named or PropertyName.UNIQUE_KEY in properties:
        return text, b""
    return text + _UNIQUE_KEY, b"\x02"


def _around(body_size: int, name_size: int, flag: int, text: bytes, end: bytes) -> tuple[bytes, bytes]:
    """What stands before the body of an item, and what stands between it and the unique id."""
    size = len(text) + name_size + len(end)
    return _HEAD.pack(FIXED_SIZE + body_size + size, 0, 0, flag, body_size), _LENGTH_16.pack(size) + text


def _does_not_fit(message: Message, exc: Exception) -> LocalProtocolError:
    return LocalProtocolError(
        f"{message!r} does not fit into a batch: flags are 32-bit numbers, properties valid text of at most "
        f"{MAX_PROPERTIES_SIZE} bytes ({exc})"
    )


def batch_item_size(message: Message) -> int:
    """Bytes of one message as an item of a batch body, for splitting."""
    return FIXED_SIZE + len(message.body) + len(encode_properties(message.wire_properties).encode("utf-8", "replace"))


def decode_batch(data: bytes, *, most: int = sys.maxsize) -> list[BatchItem]:
    """The items of a batch body, the first `most` of them.

    Raises:
        MessageDecodeError: the lengths in it do not add up.
    """
    return list(decode_columns(data, most=most))


def encode_batch_items(items: Iterable[BatchItem]) -> bytes:
    """The body of a batch request from items as `decode_batch` gives them."""
    parts: list[bytes] = []
    for flag, body, properties in items:
        head = _HEAD.pack(FIXED_SIZE + len(body) + len(properties), 0, 0, flag, len(body))
        parts += (head, body, _LENGTH_16.pack(len(properties)), properties)
    return b"".join(parts)
