"""Filters of readers, with two phases: by the consume queue's entry, then by the message itself.

The first phase needs only the unit of the queue, or its extension, and messages that it rejects are never read. The
second phase looks at the properties of a message, and so needs its record. Tags are compared in the first phase, by
their hash; the client compares the text, as with Apache's broker. Plays the part of MessageFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["BitMaps", "ByBits", "ByCode", "ByMessage", "MessageFilter", "distinct", "joined"]

ByCode = Callable[[int], bool]
"""Tells from a message's tag hash whether a reader wants it."""
ByBits = Callable[[bytes, int], bool]
"""Tells from the queue's extension, by the message's bit map and store time, whether a reader may want it."""
ByMessage = Callable[[bytes], bool]
"""Tells from a message's properties, as they are stored, whether a reader wants it."""

_FEW = 8
"""How many messages of an arrival are evaluated at most."""
_SHARE = 32
"""A held pull may spend this fraction of a read's time, one in so many, on evaluating an arrival."""


class BitMaps(Protocol):
    """Computes which filters messages match, when they are dispatched to their queues."""

    def begin(self) -> Container[str]:
        """Start another step of dispatching, with its own limit of time. Returns the topics that have filters."""
        ...

    def of(self, topic: str, properties: Sequence[bytes]) -> Sequence[bytes]:
        """The bit map of each message of such a topic with these properties; empty if it was not computed."""
        ...


class MessageFilter(NamedTuple):
    """The filter of one reader; a test that is None lets every message through.

    Attributes:
        codes: The wanted tag hashes; None for all.
        by_bits: The test of a message's bit map, if it has one.
        by_message: The test of the message itself, after all others.
        most_looked_at: How many messages one read may evaluate with `by_message`; None for any number.
        most_bytes: How many bytes of their properties it may evaluate, likewise.
        size: Estimated bytes of memory of the tests.
    """

    codes: frozenset[int] | None = None
    by_bits: ByBits | None = None
    by_message: ByMessage | None = None
    most_looked_at: int | None = None
    most_bytes: int | None = None
    size: int = 0

    @property
    def by_code(self) -> ByCode | None:
        """The test on a tag hash."""
        return None if self.codes is None else self.codes.__contains__

    def wants_any(self, arrival: Arrival, codes: Collection[int]) -> bool:
        """Whether it wants one of the messages that arrived. True too if they are too many to evaluate here.

        Args:
            arrival: the messages.
            codes: their tag hashes; if there are many, each once.
        """
        if self.codes is not None and self.codes.isdisjoint(codes):
            return False
        if self.by_message is None:
            return True
        few = _FEW if self.most_looked_at is None else min(_FEW, self.most_looked_at)
        size = sum(map(len, islice(arrival.properties, few)))
        if len(arrival.tags_codes) > few or (self.most_bytes is not None and size > self.most_bytes // _SHARE):
            return True
        return any(
            (self.codes is None or entry.tags_code in self.codes) and self.by_message(entry.properties)
            for entry in islice(arrival.entries(), few)
        )

    @property
    def kept_size(self) -> int:
        """Bytes of memory that it keeps, by a generous estimate."""
        return 256 + 100 * len(self.codes or ()) + self.size


def distinct(codes: Collection[int]) -> Collection[int]:
    """Tag hashes; if there are several, each once."""
    return codes if len(codes) <= 1 else frozenset(codes)


def joined(arrivals: Iterable[Arrival]) -> Arrival:
    """Join the arrivals of one queue, in order, into one."""
    every = list(arrivals)
    return every[-1]._replace(
        tags_codes=[code for each in every for code in each.tags_codes],
        properties=[item for each in every for item in each.properties],
        size=sum(each.size for each in every),
    )
