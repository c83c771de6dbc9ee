"""Which messages a reader wants, asked in two phases: by the entry of the queue, then by the message itself.

The first phase reads nothing but the unit of the queue, or its extension; what it refuses is never read. The second one
has the properties of a message and so needs its record. Tags are told apart in the first phase, by their hash, and the
text is compared by the client, as with Apache's broker. Plays the part of MessageFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["BitMaps", "ByBits", "ByCode", "ByMessage", "MessageFilter", "distinct", "joined"]

ByCode = Callable[[int], bool]
"""Says by the tag hash of a message whether a reader wants it."""
ByBits = Callable[[bytes, int], bool]
"""The same by what filters have left in the extension of the queue when the message came: bit map and store time."""
ByMessage = Callable[[bytes], bool]
"""The same by the properties, as they are stored."""

_FEW = 8
"""Messages of an arrival that are looked at, at most."""
_SHARE = 32
"""What share of the time of a read one who waits may take to look at an arrival."""


class BitMaps(Protocol):
    """Says which filters messages pass, as they are brought into their queues."""

    def begin(self) -> Container[str]:
        """Another step of dispatching begins, with so much time of its own. Returns the topics that are filtered."""
        ...

    def of(self, topic: str, properties: Sequence[bytes]) -> Sequence[bytes]:
        """The bit map of each message of such a topic with these properties; an empty one says nothing."""
        ...


class MessageFilter(NamedTuple):
    """What one reader wants; a test that is None lets everything through.

    Attributes:
        codes: The tag hashes that are wanted; None for all.
        by_bits: Looks at the bit map of a message, where it has one.
        by_message: Looks at the message, when all else has let it through.
        most_looked_at: Messages that `by_message` has time for at once; None for any number.
        most_bytes: Bytes of their properties, likewise.
        size: Bytes that the tests keep.
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
        """Whether it wants one of the messages that arrived; also when they are too many to look at here.

        Args:
            arrival: what is known of them.
            codes: their tag hashes, each once where they are many.
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
        """Bytes that it keeps, by a generous estimate."""
        return 256 + 100 * len(self.codes or ()) + self.size


def distinct(codes: Collection[int]) -> Collection[int]:
    """Tag hashes, each once where they are many."""
    return codes if len(codes) <= 1 else frozenset(codes)


def joined(arrivals: Iterable[Arrival]) -> Arrival:
    """What arrived in one queue, one after the other, as one arrival."""
    every = list(arrivals)
    return every[-1]._replace(
        tags_codes=[code for each in every for code in each.tags_codes],
        properties=[item for each in every for item in each.properties],
    )
