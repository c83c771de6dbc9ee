"""Hashes of the keys of many messages at once: of those whose properties have the same names in the same places.

So are the messages of most batches. Their properties are laid one below the other, and what differs is hashed column by
column, with all messages side by side in one large number: a lane of 64 bits each. Not here: properties of any shape,
one message at a time, which `keys` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from struct import unpack

__all__ = ["FEW", "absolute", "alike_hashes", "by_length"]

FEW = 8
"""So many messages and fewer are hashed faster one by one."""

_MASK = 0xFFFFFFFF
_LANE = 8
_STEPS = 6
"""Characters that are added to a lane between two masks: 32 bits grow by five for each."""
_PAIR_END, _SPACE = 2, 32
_UNIQUE, _KEYS = b"UNIQ_KEY", b"KEYS"

Span = tuple[int, int]


def absolute(value: int) -> int:
    """The absolute value of a hash, given with or without its sign, as Java has it: 0 where that overflows."""
    value &= _MASK
    if value < 0x80000000:
        return value
    return 0 if value == 0x80000000 else 0x100000000 - value


def by_length(texts: Sequence[bytes]) -> Iterator[Sequence[int]]:
    """The numbers of texts of the same length, for each length."""
    if len(set(map(len, texts))) == 1:
        yield range(len(texts))
        return
    found: defaultdict[int, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        found[len(text)].append(number)
    yield from found.values()


def alike_hashes(begun: int, texts: Sequence[bytes]) -> list[tuple[int, ...]] | None:
    """The hashes of each message in the order in which they are indexed; None where the shapes differ.

    Args:
        begun: Hash of what stands before every key.
        texts: Properties of the same length.
    """
    joined, count = b"".join(texts), len(texts)
    spans = _spans(texts[0], joined, count)
    if spans is None:
        return None
    columns = [_hashes(begun, joined, count, span) for span in spans]
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _spans(first: bytes, joined: bytes, count: int) -> list[Span] | None:
    """Where the values stand that are indexed; None where that is not the same in all texts, or is not so simple."""
    pairs = first.split(b"\x02")
    if pairs.pop() or not joined.isascii():
        return None
    if joined.count(_PAIR_END) != count * len(pairs):
        return None
    at, fixed = 0, []
    found: dict[bytes, list[Span]] = {_UNIQUE: [], _KEYS: []}
    for pair in pairs:
        name = pair.partition(b"\x01")[0]
        begin, end = at + len(name) + 1, at + len(pair)
        fixed += [range(at, begin), (end,)]
        if name in found:
            found[name].append((begin, end))
        at = end + 1
    width = len(first)
    if max(map(len, found.values())) > 1 or any(joined[at::width].count(first[at]) != count for at in chain(*fixed)):
        return None
    if b" " in joined and any(_SPACE in joined[at::width] for span in found[_KEYS] for at in range(*span)):
        return None  # several keys
    return [span for span in (*found[_UNIQUE], *found[_KEYS]) if span[0] < span[1]]


def _hashes(begun: int, joined: bytes, count: int, span: Span) -> list[int]:
    """The hash of one value of every text."""
    width = len(joined) // count
    value = begun
    for at in range(*span):
        column = joined[at::width]
        if column.count(column[0]) != count:
            return _in_lanes(value, [joined[column::width] for column in range(at, span[1])], count)
        value = value * 31 + column[0] & _MASK
    return [absolute(value)] * count


def _in_lanes(value: int, columns: Sequence[bytes], count: int) -> list[int]:
    """Go on with more characters, in as many lanes as there are texts; `value` is the hash up to there."""
    ones, mask = _constants(count)
    lanes = ones * value
    spread = bytearray(_LANE * count)
    for step, column in enumerate(columns, 1):
        spread[::_LANE] = column
        lanes = lanes * 31 + int.from_bytes(spread, "little")
        if step % _STEPS == 0:
            lanes &= mask
    values = unpack(f"<{count}Q", (lanes & mask).to_bytes(_LANE * count, "little"))
    return [value if value < 0x80000000 else absolute(value) for value in values]


@lru_cache(maxsize=16)
def _constants(count: int) -> tuple[int, int]:
    """One, and the mask of a hash, in each of so many lanes."""
    one = bytes([1, *bytes(_LANE - 1)])
    ones = int.from_bytes(one * count, "little")
    return ones, ones * _MASK
