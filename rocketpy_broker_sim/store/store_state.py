"""StoreState: how far the life of a store is. It only ever goes forward. Plays the part of MessageStoreStateMachine."""

from __future__ import annotations

from enum import IntEnum

from rocketpy.errors import StoreError

__all__ = ["Phase", "StoreState", "StoreStateError"]


class Phase(IntEnum):
    """The stations of a life, in their order."""

    CREATED = 0
    LOADED = 1
    """Its files are taken in."""
    RECOVERED = 2
    """Log and queues agree."""
    RUNNING = 3
    SHUTTING_DOWN = 4
    SHUT_DOWN = 5


class StoreStateError(StoreError):
    """A store was asked to go back in its life, for instance to open again after it was closed."""


class StoreState:
    """Where a store stands.

    Attributes:
        phase: The station that it reached last.
    """

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase = Phase.CREATED

    @property
    def is_running(self) -> bool:
        """Whether it takes messages and gives them out."""
        return self.phase is Phase.RUNNING

    def advance(self, phase: Phase) -> None:
        """Go on to a later station; some may be left out.

        Raises:
            StoreStateError: It is there already, or further.
        """
        if phase <= self.phase:
            raise StoreStateError(
                f"a store that is {_words(self.phase)} cannot become {_words(phase)}: make a new one for the directory"
            )
        self.phase = phase


def _words(phase: Phase) -> str:
    return phase.name.lower().replace("_", " ")
