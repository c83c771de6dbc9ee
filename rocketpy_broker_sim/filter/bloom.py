"""A Bloom filter over pairs of consumer group and topic, each of which has a few bits of a map. Plays BloomFilter.

When a message arrives, the bits of every group whose filter it matches are set in the message's bit map. If one of a
group's bits is not set, the group does not want the message. If all are set it may want it, or other groups share its
bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["BloomFilter", "BloomFilterData", "murmur3_x64_64"]

_MASK = 0xFFFFFFFFFFFFFFFF
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


class BloomFilterData(NamedTuple):
    """The bits of one pair.

    Attributes:
        bit_num: Number of bits of a map.
        positions: The positions of the pair's bits; two may be the same.
    """

    bit_num: int
    positions: tuple[int, ...]

    @property
    def mask(self) -> int:
        """The bits as a number, to compare with a map that is read as a little-endian number."""
        mask = 0
        for position in self.positions:
            mask |= 1 << position
        return mask


class BloomFilter:
    """Assigns bits to pairs, and makes bit maps.

    Args:
        error_rate: percentage of unwanted messages that may match by accident, 1 to 99.
        expected: the expected number of pairs.

    Attributes:
        hashes: Number of bits of a pair.
        bit_num: Number of bits of a map, a multiple of 8.
    """

    def __init__(self, error_rate: int, expected: int) -> None:
        rate = error_rate / 100.0
        self.hashes = math.ceil(math.log(rate) / math.log(0.5))
        bits = math.ceil(expected * (math.log(1 / rate) / math.log(2)) * (math.log(math.e) / math.log(2)))
        self.bit_num = 8 * math.ceil(bits / 8.0)

    def positions(self, text: str) -> tuple[int, ...]:
        """The positions of a text's bits."""
        hashed = murmur3_x64_64(text.encode("utf-8", "replace"))
        low, high = _int32(hashed), _int32(hashed >> 32)
        found = []
        for number in range(1, self.hashes + 1):
            combined = _int32(low + number * high)
            found.append((~combined if combined < 0 else combined) % self.bit_num)
        return tuple(found)

    def data(self, group: str, topic: str) -> BloomFilterData:
        """The bits of a group's subscription to a topic."""
        return BloomFilterData(self.bit_num, self.positions(f"{group}#{topic}"))

    def is_valid(self, data: BloomFilterData | None) -> bool:
        """Whether bits, perhaps from an earlier run, come from a filter with the same parameters."""
        if data is None or data.bit_num != self.bit_num or len(data.positions) != self.hashes:
            return False
        return all(0 <= position < self.bit_num for position in data.positions)

    def bits(self, masks: Iterable[int]) -> bytes:
        """The map in which the bits of all these pairs are set."""
        every = 0
        for mask in masks:
            every |= mask
        return every.to_bytes(self.bit_num // 8, "little")


def _int32(number: int) -> int:
    return ((number & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def murmur3_x64_64(data: bytes) -> int:
    """The lower 64 bits of MurmurHash3 x64 128 with seed 0, a public domain algorithm by Austin Appleby."""
    first = second = 0
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        first ^= _mixed_first(int.from_bytes(data[at : at + 8], "little"))
        first = ((_rotated(first, 27) + second) * 5 + 0x52DCE729) & _MASK
        second ^= _mixed_second(int.from_bytes(data[at + 8 : at + 16], "little"))
        second = ((_rotated(second, 31) + first) * 5 + 0x38495AB5) & _MASK
    tail = data[whole:]
    second ^= _mixed_second(int.from_bytes(tail[8:], "little"))
    first ^= _mixed_first(int.from_bytes(tail[:8], "little"))
    first ^= len(data)
    second ^= len(data)
    first = (first + second) & _MASK
    second = (second + first) & _MASK
    return (_finished(first) + _finished(second)) & _MASK


def _mixed_first(block: int) -> int:
    return (_rotated((block * _C1) & _MASK, 31) * _C2) & _MASK


def _mixed_second(block: int) -> int:
    return (_rotated((block * _C2) & _MASK, 33) * _C1) & _MASK


def _rotated(number: int, bits: int) -> int:
    return ((number << bits) | (number >> (64 - bits))) & _MASK


def _finished(number: int) -> int:
    number ^= number >> 33
    number = (number * 0xFF51AFD7ED558CCD) & _MASK
    number ^= number >> 33
    number = (number * 0xC4CEB9FE1A85EC53) & _MASK
    return number ^ (number >> 33)
