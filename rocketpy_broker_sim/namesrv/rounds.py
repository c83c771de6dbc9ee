"""Which topics a whole registration has held, whether it came in one request or in pieces.

Needed where topics that a registration leaves out are forgotten: what another piece of it holds must stay. Brokers of
ours say which piece a request is. Apache's say nothing, but every whole registration of theirs holds the topic of the
broker's own name once: from one request that holds it to the second after it, everything has been told.
"""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from rocketpy.wire.bodies.registration import Piece

__all__ = ["Rounds"]

_FEW = 1024
"""Names that may be kept of topics which nobody holds any more."""


@attrs.define(eq=False)
class _Round:
    """What one broker has told so far.

    Attributes:
        told: The topics of the pieces before this one.
        count: How many pieces there are, as the broker says; 0 when it says nothing.
        next: The piece that is to come.
        last: The topics of the round before.
        is_split: Whether a request held several topics and not the broker's own.
    """

    told: set[str] = attrs.Factory(set)
    count: int = 0
    next: int = 0
    last: AbstractSet[str] = frozenset()
    is_split: bool = False


class Rounds:
    """The rounds of all brokers, by any key that stands for a broker."""

    def __init__(self) -> None:
        self._rounds: dict[object, _Round] = {}

    def forget(self, key: object) -> None:
        """A broker has left."""
        self._rounds.pop(key, None)

    def note(
        self, key: object, piece: Piece | None, names: AbstractSet[str], own: str, held: AbstractSet[str]
    ) -> Container[str] | None:
        """Take note of a request.

        Args:
            key: which broker.
            piece: which piece the broker says it is.
            names: the topics of the request.
            own: the broker's name.
            held: the topics that it is known to hold.

        Returns:
            The topics that stay, when all have been told with this one; others are gone. None when there may be more.
        """
        if piece is None:
            return self._unsaid(key, names, own, held)
        if piece.index is None:
            if key in self._rounds:
                self._tell(self._rounds[key], names, held)
            return None
        return self._said(key, piece.index, piece.count, names, held)

    def _tell(self, found: _Round, names: AbstractSet[str], held: AbstractSet[str]) -> None:
        """These are told too. Of names, no more than twice as many are kept as are held or told now."""
        found.told |= names
        if len(found.told) > _FEW + 2 * (len(held) + len(names)):
            found.told = (found.told & held) | names

    def _said(
        self, key: object, index: int, count: int, names: AbstractSet[str], held: AbstractSet[str]
    ) -> Container[str] | None:
        if count == 1:
            self.forget(key)
            return names
        if index == 0:
            self._rounds[key] = _Round(set(names), count, 1)
            return None
        found = self._rounds.get(key)
        if found is None or (found.count, found.next) != (count, index):
            self.forget(key)  # one of them never came: nothing is known of what it held
            return None
        self._tell(found, names, held)
        found.next += 1
        if index < count - 1:
            return None
        self.forget(key)
        return found.told

    def _unsaid(self, key: object, names: AbstractSet[str], own: str, held: AbstractSet[str]) -> Container[str] | None:
        found = self._rounds.setdefault(key, _Round())
        if not held:
            found.last = frozenset(names)
            return None
        if len(names) == 1 or held.isdisjoint(names) or (own in held and own not in names):
            self._tell(found, names, held)
            found.is_split = found.is_split or len(names) > 1
            return None
        told = found.told | names
        self._rounds[key] = _Round(last=told)
        # Between two rounds a topic may move from a piece before the broker's own to one after it.
        return told | found.last if found.is_split else told
