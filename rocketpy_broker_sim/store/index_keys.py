"""The hashes under which a message is indexed: of ``topic#unique id`` once, then of ``topic#key`` for each of its keys.

The hash is that of Java's strings. Since every message has an id of its own, it is not computed character by character
in Python: what ids of one producer share is hashed once, and the rest is looked up in pairs. Plays the part of
IndexService.buildIndex and indexKeyHashMethod.
"""

from __future__ import annotations

from operator import mul
from struct import Struct

from rocketpy.wire.java_hash import string_hash
from rocketpy.wire.properties import find_property

__all__ = ["KeyHashes", "hash_of"]

_MASK = 0xFFFFFFFF
_PAIR_END = 2
_MOST_CACHED = 4096
_TAIL = 8
"""Characters at the end of a unique id that change from message to message."""
_QUARTETS = Struct(">HHHH")
_PAIRS = [(pair >> 8) * 31 + (pair & 0xFF) for pair in range(0x8000)]
"""Hash of two ASCII characters, by both of them as one number."""
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(257)]
_WEIGHTS = [tuple(reversed(_POWERS[:length])) for length in range(257)]


def hash_of(topic: str, key: str) -> int:
    """What an index keeps of a key."""
    return _absolute(string_hash(f"{topic}#{key}"))


def _absolute(value: int) -> int:
    """The absolute value of a hash, given with or without its sign, as Java has it: 0 where that overflows."""
    value &= _MASK
    if value < 0x80000000:
        return value
    return 0 if value == 0x80000000 else 0x100000000 - value


class KeyHashes:
    """Hashes of the keys of messages, with what their topics and producers have in common kept."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicHashes] = {}

    def of(self, topic: str, properties: bytes) -> list[int]:
        """The hashes of one message, in the order in which they are indexed."""
        return self.topic(topic).of(properties)

    def topic(self, topic: str) -> _TopicHashes:
        """The hashes of one topic."""
        known = self._topics.get(topic)
        if known is None:
            if len(self._topics) >= _MOST_CACHED:
                self._topics.clear()
            known = self._topics[topic] = _TopicHashes(topic)
        return known


class _TopicHashes:
    """Hashes of ``topic#key`` for one topic."""

    __slots__ = ("_begun", "_heads", "_prefix")

    def __init__(self, topic: str) -> None:
        self._prefix = f"{topic}#"
        self._begun = string_hash(self._prefix)
        self._heads: dict[bytes, int] = {}

    def of(self, properties: bytes) -> list[int]:
        """The hashes of one message."""
        hashes: list[int] = []
        at = properties.rfind(b"UNIQ_KEY\x01")
        if at >= 0:
            # Mostly it stands where it was found; only what looks strange is searched for by the rules.
            end = properties.find(b"\x02", at)
            if end > at + 9 and (at == 0 or properties[at - 1] == _PAIR_END):
                hashes.append(self._of_unique(properties[at + 9 : end]))
            elif key := find_property(properties, b"UNIQ_KEY"):
                hashes.append(self._of_unique(key))
        if b"KEYS\x01" in properties and (keys := find_property(properties, b"KEYS")):
            hashes.extend([self._of_any(key) for key in keys.split(b" ") if key])
        return hashes

    def _of_unique(self, key: bytes) -> int:
        head = self._heads.get(key[:-_TAIL])
        if head is None:
            head = self._head(key)
        if head < 0 or not key.isascii():
            return self._of_any(key)
        first, second, third, fourth = _QUARTETS.unpack_from(key, len(key) - _TAIL)
        value = head + ((_PAIRS[first] * 961 + _PAIRS[second]) * 961 + _PAIRS[third]) * 961 + _PAIRS[fourth]
        value &= _MASK
        return value if value < 0x80000000 else _absolute(value)

    def _head(self, key: bytes) -> int:
        """What is hashed before the tail of a unique id, kept for those that begin alike; -1 where there is none."""
        head = key[:-_TAIL]
        if not head or not head.isascii():
            return -1
        if len(self._heads) >= _MOST_CACHED:
            self._heads.clear()
        begun = string_hash(self._prefix + head.decode())
        value = self._heads[head] = (begun * _POWERS[_TAIL]) & _MASK
        return value

    def _of_any(self, key: bytes) -> int:
        length = len(key)
        if length < len(_WEIGHTS) and key.isascii():
            return _absolute(self._begun * _POWERS[length] + sum(map(mul, key, _WEIGHTS[length])))
        return _absolute(string_hash(self._prefix + key.decode("utf-8", "replace")))
