"""The hashes under which a message is indexed: of ``topic#unique id`` once, then of ``topic#key`` for each of its keys.

The hash is that of Java's strings. Since every message has an id of its own, it is not computed character by character
in Python: what ids of one producer share is hashed once, and the rest is looked up in pairs. Plays the part of
IndexService.buildIndex and indexKeyHashMethod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from operator import mul
from struct import Struct
from typing import TYPE_CHECKING

from rocketpy.wire.java_hash import string_hash
from rocketpy.wire.properties import find_property
from rocketpy_broker_sim.store.index.batch_keys import FEW, absolute, alike_hashes, by_length
from rocketpy_broker_sim.store.index.key_columns import KeyColumns

if TYPE_CHECKING:
    from array import array

    from rocketpy_broker_sim.store.index.key_columns import IndexKey

__all__ = ["KeyHashes", "hash_of"]

_MASK = 0xFFFFFFFF
_UNIQUE = b"UNIQ_KEY\x01"
_PAIR_END = 2
_MOST_CACHED = 4096
_MOST_TOPICS = 65_536
_TAIL = 8
"""Characters at the end of a unique id that change from message to message."""
_QUARTETS = Struct(">HHHH")
_MOST_WEIGHTS = 256
"""Characters of a key that is hashed with weights at most."""


_Heads = dict[bytes, tuple[int, int]]
"""Of beginnings of unique ids, all of them ASCII: what one adds to the hash, ready for the last eight characters, and
what the hash of whatever stands before the id is multiplied with."""

# Made when they are needed for the first time: a broker shall start at once.


@cache
def _pairs() -> list[int]:
    """Hash of two ASCII characters, by both of them as one number."""
    return [(pair >> 8) * 31 + (pair & 0xFF) for pair in range(0x8000)]


@cache
def _weights(length: int) -> tuple[int, ...]:
    """What each character of so many counts."""
    return tuple([pow(31, exponent, 1 << 32) for exponent in range(length - 1, -1, -1)])


def hash_of(topic: str, key: str) -> int:
    """What an index keeps of a key."""
    return absolute(string_hash(f"{topic}#{key}"))


class KeyHashes:
    """Hashes of the keys of messages, with what their topics and producers have in common kept."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicHashes] = {}
        self._heads: _Heads = {}

    def of(self, topic: str, properties: bytes) -> list[int]:
        """The hashes of one message, in the order in which they are indexed."""
        known = self._topics.get(topic) or self._new(topic)
        return [*known.unique(properties), *known.keys(properties)]

    def some(self, topic: str, properties: bytes, first: int, most: int) -> list[int]:
        """Some hashes of a message, as `of` has them: so many from a number on."""
        known = self._topics.get(topic) or self._new(topic)
        return known.some(properties, first, most)

    def of_all(self, messages: Iterable[tuple[str, bytes, int, int]]) -> list[IndexKey]:
        """All keys of messages, given by topic, properties, position and store time; in one loop, for speed."""
        keys: list[IndexKey] = []
        topics, heads, pairs = self._topics.get, self._heads.get, _pairs()
        unpack, add = _QUARTETS.unpack_from, keys.append
        for topic, properties, position, timestamp in messages:
            known = topics(topic) or self._new(topic)
            at = properties.rfind(_UNIQUE)
            if at >= 0:
                end = properties.find(b"\x02", at)
                head = heads(properties[at + 9 : end - _TAIL])
                if head is not None and end > at + 17 and properties.isascii() and _begins(properties, at):
                    one, two, three, four = unpack(properties, end - _TAIL)
                    value = known.begun * head[1] + head[0]
                    value += ((pairs[one] * 961 + pairs[two]) * 961 + pairs[three]) * 961 + pairs[four]
                    value &= _MASK
                    add((value if value < 0x80000000 else absolute(value), position, timestamp))
                else:
                    keys += [(hashed, position, timestamp) for hashed in known.unique(properties)]
            if b"KEYS\x01" in properties:
                keys += [(hashed, position, timestamp) for hashed in known.keys(properties)]
        return keys

    def of_batch(self, topic: str, texts: Sequence[bytes], positions: array[int], timestamp: int) -> KeyColumns:
        """All keys of messages of one topic that were stored at the same time, given by properties and position."""
        known = self._topics.get(topic) or self._new(topic)
        groups = by_length(texts)
        if len(groups) == 1 and len(texts) > FEW:
            columns = alike_hashes(known.begun, texts)
            if columns is not None:
                return KeyColumns.side_by_side(columns, positions, timestamp)
        hashes: list[Sequence[int]] = [()] * len(texts)
        for numbers in groups:
            same = [texts[number] for number in numbers]
            columns = alike_hashes(known.begun, same) if FEW < len(same) < len(texts) else None
            if columns is None:
                found: Iterable[Sequence[int]] = [(*known.unique(text), *known.keys(text)) for text in same]
            else:
                found = zip(*columns, strict=True) if columns else [()] * len(same)
            for number, each in zip(numbers, found, strict=True):
                hashes[number] = each
        return KeyColumns.of_messages(hashes, positions, timestamp)

    def _new(self, topic: str) -> _TopicHashes:
        if len(self._topics) >= _MOST_TOPICS:
            self._topics.clear()
        known = self._topics[topic] = _TopicHashes(topic, self._heads)
        return known


def _begins(properties: bytes, at: int) -> bool:
    """Whether a name that was found is a whole one."""
    return at == 0 or properties[at - 1] == _PAIR_END


class _TopicHashes:
    """Hashes of ``topic#key`` for one topic.

    Args:
        topic: Its name.
        heads: What is known of the beginnings of unique ids, shared by all topics.

    Attributes:
        begun: Hash of what stands before every key.
    """

    __slots__ = ("_heads", "_prefix", "begun")

    def __init__(self, topic: str, heads: _Heads) -> None:
        self._prefix = f"{topic}#"
        self._heads = heads
        self.begun = string_hash(self._prefix)

    def unique(self, properties: bytes) -> list[int]:
        """The hash of the unique id of a message, if it has one."""
        key = find_property(properties, b"UNIQ_KEY")
        if key is None:
            return []
        if len(key) > _TAIL and key.isascii():
            self._keep_head(key[:-_TAIL])
        return [self._of(key)]

    def keys(self, properties: bytes) -> list[int]:
        """The hashes of the keys of a message."""
        keys = find_property(properties, b"KEYS")
        return [self._of(key) for key in keys.split(b" ") if key] if keys else []

    def some(self, properties: bytes, first: int, most: int) -> list[int]:
        """So many of the hashes of a message, from a number on."""
        unique, keys = find_property(properties, b"UNIQ_KEY"), find_property(properties, b"KEYS")
        texts = [] if unique is None else [unique]
        texts += [key for key in keys.split(b" ") if key] if keys else []
        return [self._of(text) for text in texts[first : first + most]]

    def _keep_head(self, head: bytes) -> None:
        if len(self._heads) >= _MOST_CACHED:
            self._heads.clear()
        own = string_hash(head.decode()) * 31**_TAIL & _MASK
        self._heads[head] = own, pow(31, len(head) + _TAIL, 1 << 32)

    def _of(self, key: bytes) -> int:
        length = len(key)
        if length <= _MOST_WEIGHTS and key.isascii():
            return absolute(self.begun * pow(31, length, 1 << 32) + sum(map(mul, key, _weights(length))))
        return absolute(string_hash(self._prefix + key.decode("utf-8", "replace")))
