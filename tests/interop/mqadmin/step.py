"""One call of `mqadmin` with its options. Pure.

Names in braces are those of the scene: `{broker}` is the address of the broker, `{topic}` the topic with messages.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.interop.apache import LINES

SECONDS = 30.0


@dataclass(frozen=True)
class Step:
    """A call, what it may take, and what to read beside what it prints."""

    text: str
    """The command and its options but for the name servers."""
    lines: tuple[str, ...] = LINES
    """The lines that have it."""
    files: tuple[str, ...] = ()
    """Files that it writes below the directory of the scene, and that are read with what it prints."""
    until: str = ""
    """Call it again until a line of this form is there: what it tells of comes a moment later."""
    seconds: float = SECONDS
    """The time that it may take."""
    hashed: bool = False
    """Whether its rows come in the order of a hash table of Java's, so that the order says nothing."""
    measured: bool = False
    """Whether it tells of rates and times, so that none of its numbers is compared."""
    enough: str = ""
    """It goes on until it is interrupted: when it has printed text of this form."""

    @property
    def command(self) -> str:
        """Its first word."""
        return self.text.partition(" ")[0]

    def arguments(self, places: Mapping[str, str]) -> list[str]:
        """The words that `mqadmin` is given, with the names of the scene put in."""
        command, *options = (word.format_map(places) for word in shlex.split(self.text))
        return [command, "-n", places["namesrv"], *options]


def of_line(steps: Sequence[Step], version: str) -> list[Step]:
    """The calls that a line has, in order."""
    return [each for each in steps if version in each.lines]
