"""Hashes of the keys of many messages at once: of those whose properties have the same names in the same places.

So are the messages of most batches. Their properties are laid one below the other, and what differs is hashed column by
column, with all messages side by side in one large number: a lane of 64 bits each. Not here: properties of any shape,
one message at a time, which `keys` does.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from sys import byteorder
from typing import NamedTuple

from rocketpy.wire.alike import have_same_length, varying_columns

__all__ = ["FEW", "absolute", "alike_hashes", "by_length"]

FEW = 8
"""So many messages and fewer are hashed faster one by one."""

_MASK = 0xFFFFFFFF
_LANE = 8
_STEPS = 6
"""Characters that are added to a lane between two masks: 32 bits grow by five for each."""
_PAIR_END, _SPACE = 2, 32
_UNIQUE, _KEYS = b"UNIQ_KEY", b"KEYS"


class _Span(NamedTuple):
    """Where a value stands that is indexed."""

    begin: int
    """The number of its first byte."""
    end: int
    """That of the first byte behind it."""
    is_keys: bool
    """Whether it may be several keys."""


class _Shape(NamedTuple):
    """Of properties that may have others alike."""

    pairs: int
    """How many names with values there are."""
    fixed: Sequence[range]
    """Where names and separators stand."""
    spans: Sequence[_Span]
    """In the order in which they are indexed."""


def absolute(value: int) -> int:
    """The absolute value of a hash, given with or without its sign, as Java has it: 0 where that overflows."""
    value &= _MASK
    if value < 0x80000000:
        return value
    return 0 if value == 0x80000000 else 0x100000000 - value


def by_length(texts: Sequence[bytes]) -> Sequence[Sequence[int]]:
    """The numbers of texts of the same length, for each length."""
    if have_same_length(texts):
        return [range(len(texts))]
    found: defaultdict[int, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        found[len(text)].append(number)
    return list(found.values())


def alike_hashes(begun: int, texts: Sequence[bytes]) -> Sequence[array[int]] | None:
    """The hashes of all messages: the first of each, the second of each, in the order in which they are indexed; None
    where the shapes differ.

    Args:
        begun: Hash of what stands before every key.
        texts: Properties of the same length.
    """
    shape = _shape(texts[0])
    if shape is None:
        return None
    joined = b"".join(texts)
    starts = _starts_of_columns(varying_columns(texts), shape)
    if starts is None:
        if not _are_alike(texts, joined, shape):
            return None
        starts = [_start(joined, len(texts), span) for span in shape.spans]
    pairs = zip(shape.spans, starts, strict=True)
    return [_hashes(begun, joined, len(texts), span, start) for span, start in pairs]


def _shape(text: bytes) -> _Shape | None:
    """The shape of properties; None where it is not so simple."""
    pairs = text.split(b"\x02")
    if pairs.pop() or not text.isascii():
        return None
    at, fixed = 0, []
    found: dict[bytes, list[_Span]] = {_UNIQUE: [], _KEYS: []}
    for pair in pairs:
        name = pair.partition(b"\x01")[0]
        begin, end = at + len(name) + 1, at + len(pair)
        fixed += [range(at, begin), range(end, end + 1)]
        if name in found:
            found[name].append(_Span(begin, end, name == _KEYS))
        at = end + 1
    if max(map(len, found.values())) > 1:
        return None
    spans = [span for span in (*found[_UNIQUE], *found[_KEYS]) if span.begin < span.end]
    if any(span.is_keys and _SPACE in text[span.begin : span.end] for span in spans):
        return None  # several keys
    return _Shape(len(pairs), fixed, spans)


def _starts_of_columns(columns: Mapping[int, bytes] | None, shape: _Shape) -> Sequence[int] | None:
    """Where messages begin to differ in each of the values that are indexed; None where their shapes may differ."""
    if columns is None or any(at in columns for at in chain(*shape.fixed)):
        return None
    if not all(column.isascii() and _PAIR_END not in column for column in columns.values()):
        return None
    starts = []
    for begin, end, is_keys in shape.spans:
        varying = [at for at in range(begin, end) if at in columns]
        if is_keys and any(_SPACE in columns[at] for at in varying):
            return None
        starts.append(varying[0] if varying else end)
    return starts


def _are_alike(texts: Sequence[bytes], joined: bytes, shape: _Shape) -> bool:
    """Whether all texts have the shape of the first."""
    count, first, width = len(texts), texts[0], len(texts[0])
    if not joined.isascii() or joined.count(_PAIR_END) != count * shape.pairs:
        return False
    if any(joined[at::width].count(first[at]) != count for at in chain(*shape.fixed)):
        return False
    keys = [span for span in shape.spans if span.is_keys] if b" " in joined else []
    return not any(_SPACE in joined[at::width] for span in keys for at in range(span.begin, span.end))


def _start(joined: bytes, count: int, span: _Span) -> int:
    """Where messages begin to differ in a value."""
    width = len(joined) // count
    for at in range(span.begin, span.end):
        if joined[at::width].count(joined[at]) != count:
            return at
    return span.end


def _hashes(begun: int, joined: bytes, count: int, span: _Span, start: int) -> array[int]:
    """The hash of one value of every text; they begin to differ at `start`."""
    value = begun & _MASK  # a negative one would borrow from the lane above
    for character in joined[span.begin : start]:
        value = value * 31 + character & _MASK
    if start == span.end:
        return array("i", [absolute(value)]) * count
    width = len(joined) // count
    return _in_lanes(value, [joined[at::width] for at in range(start, span.end)], count)


def _in_lanes(value: int, columns: Sequence[bytes], count: int) -> array[int]:
    """Go on with more characters, in as many lanes as there are texts; `value` is the hash up to there."""
    ones, mask = _constants(count)
    lanes = ones * value
    spread = bytearray(_LANE * count)
    for step, column in enumerate(columns, 1):
        spread[::_LANE] = column
        lanes = lanes * 31 + int.from_bytes(spread, "little")
        if step % _STEPS == 0:
            lanes &= mask
    return _absolutes(lanes & mask, count)


def _absolutes(lanes: int, count: int) -> array[int]:
    """`absolute` of the hash in each lane."""
    ones, mask = _constants(count)
    negative = lanes >> 31 & ones
    # All bits of a negative one are turned over, and one is added; what overflows by that leaves nothing but its sign.
    lanes = (lanes ^ negative * _MASK) + negative & mask >> 1
    words = array("i", lanes.to_bytes(_LANE * count, "little"))
    if byteorder == "big":
        words.byteswap()
    return words[::2]


@lru_cache(maxsize=16)
def _constants(count: int) -> tuple[int, int]:
    """One, and the mask of a hash, in each of so many lanes."""
    one = bytes([1, *bytes(_LANE - 1)])
    ones = int.from_bytes(one * count, "little")
    return ones, ones * _MASK
