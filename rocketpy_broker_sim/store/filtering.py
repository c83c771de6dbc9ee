"""Which messages a reader wants, asked in two phases: by the entry of the queue, then by the message itself.

The first phase reads nothing but the unit of the queue, or its extension; what it refuses is never read. The second one
has the properties of a message and so needs its record. Tags are told apart in the first phase, by their hash, and the
text is compared by the client, as with Apache's broker. Plays the part of MessageFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.wire.properties import decode_properties

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["ByBits", "ByCode", "ByMessage", "MessageFilter", "distinct", "joined", "properties_of"]

ByCode = Callable[[int], bool]
"""Says by the tag hash of a message whether a reader wants it."""
ByBits = Callable[[bytes], bool]
"""The same by the bit map in the extension of the queue, which a filter may have left there when the message came."""
ByMessage = Callable[[Mapping[str, str]], bool]
"""The same by the properties."""


class MessageFilter(NamedTuple):
    """What one reader wants; a test that is None lets everything through.

    Attributes:
        codes: The tag hashes that are wanted; None for all.
        by_bits: Looks at the bit map of a message, where it has one.
        by_message: Looks at the message, when all else has let it through.
    """

    codes: frozenset[int] | None = None
    by_bits: ByBits | None = None
    by_message: ByMessage | None = None

    @property
    def by_code(self) -> ByCode | None:
        """The test on a tag hash."""
        return None if self.codes is None else self.codes.__contains__

    def wants_any(self, arrival: Arrival, codes: Collection[int]) -> bool:
        """Whether it wants one of the messages that arrived.

        Args:
            arrival: what is known of them.
            codes: their tag hashes, each once where they are many.
        """
        if self.codes is not None and self.codes.isdisjoint(codes):
            return False
        if self.by_bits is None and self.by_message is None:
            return True
        return any(
            (self.codes is None or entry.tags_code in self.codes)
            and (self.by_bits is None or not entry.bit_map or self.by_bits(entry.bit_map))
            and (self.by_message is None or self.by_message(properties_of(entry.properties)))
            for entry in arrival.entries()
        )

    @property
    def kept_size(self) -> int:
        """Bytes that it keeps, by a generous estimate."""
        return 256 + 100 * len(self.codes or ())


def properties_of(encoded: bytes) -> Mapping[str, str]:
    """Stored properties as a table."""
    return decode_properties(encoded.decode("utf-8", "replace"))


def distinct(codes: Collection[int]) -> Collection[int]:
    """Tag hashes, each once where they are many."""
    return codes if len(codes) <= 1 else frozenset(codes)


def joined(arrivals: Iterable[Arrival]) -> Arrival:
    """What arrived in one queue, one after the other, as one arrival."""
    every = list(arrivals)
    return every[-1]._replace(
        tags_codes=[code for each in every for code in each.tags_codes],
        properties=[item for each in every for item in each.properties],
        bit_maps=[item for each in every for item in each.bit_maps] if every[0].bit_maps else (),
    )
