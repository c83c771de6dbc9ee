"""What is known to come of the steps, and whether a run agrees: differences with reasons, and refusals. Pure.

A step of which nothing is known prints the same on our servers as on Apache's, and neither refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.interop.apache import LINES
from tests.interop.mqadmin.text import gaps

if TYPE_CHECKING:
    from tests.interop.mqadmin.run import Run, Said
    from tests.interop.mqadmin.step import Step

__all__ = ["Known", "Outcome", "Refused", "stale", "unexplained"]

_FAILED = re.compile(r"Exception: |\bCODE: ")


@dataclass(frozen=True)
class Outcome:
    """What is known of some steps, and why it is so."""

    steps: str
    """A form of the texts of the steps."""
    why: str
    lines: tuple[str, ...] = field(default=LINES, kw_only=True)

    def concerns(self, step: Step) -> bool:
        """Whether it is about a step."""
        return re.fullmatch(self.steps, step.text) is not None


@dataclass(frozen=True)
class Known(Outcome):
    """A difference that is meant."""

    theirs: tuple[str, ...] = ()
    """Forms of lines that only Apache's servers make the steps print."""
    ours: tuple[str, ...] = ()
    """Forms of lines that only ours make them print."""
    at_times: tuple[str, ...] = ()
    """Forms of further lines of either side, which depend on when it is asked."""


@dataclass(frozen=True)
class Refused(Outcome):
    """What neither of the servers does, or what the tool itself refuses to ask."""

    says: str
    """A form of a line that is printed on either side."""


def unexplained(run: Run, known: Sequence[Known], refused: Sequence[Refused]) -> Iterator[str]:
    """Lines that differ without a reason, and failures on both sides of which nothing is known."""
    for said in run.said:
        reasons = [each for each in known if run.version in each.lines and each.concerns(said.step)]
        theirs = [form for each in reasons for form in each.theirs + each.at_times]
        ours = [form for each in reasons for form in each.ours + each.at_times]
        lines = [f"- {line}" for line in only_theirs(said) if not _has_one(theirs, line)]
        lines += [f"+ {line}" for line in only_ours(said) if not _has_one(ours, line)]
        if not reasons and not any(run.version in each.lines and each.concerns(said.step) for each in refused):
            lines += [f"= {line}" for line in said.theirs if line in said.ours and _FAILED.search(line)]
        if lines:
            yield "\n  ".join([said.step.text, *lines])


def stale(run: Run, known: Sequence[Known], refused: Sequence[Refused]) -> Iterator[str]:
    """What is said to be known and is not so any more."""
    for difference in (each for each in known if run.version in each.lines):
        yield from _vanished(run, difference)
    for refusal in (each for each in refused if run.version in each.lines):
        concerned = [said for said in run.said if refusal.concerns(said.step)]
        if not concerned:
            yield f"{refusal.steps}: there is no such step"
        for said in concerned:
            if not all(any(re.fullmatch(refusal.says, line) for line in text) for text in (said.theirs, said.ours)):
                yield f"{said.step.text}: both do not say {refusal.says}"


def _vanished(run: Run, difference: Known) -> Iterator[str]:
    """Forms of a difference that no line has, and steps that print the same."""
    concerned = [said for said in run.said if difference.concerns(said.step)]
    for sign, forms, only in (("-", difference.theirs, only_theirs), ("+", difference.ours, only_ours)):
        lines = [line for said in concerned for line in only(said)]
        for form in forms:
            if not any(re.fullmatch(form, line) for line in lines):
                yield f"{difference.steps}: there is no line {sign} {form}"
    differing = {
        said.step
        for said in concerned
        if any(_has_one(difference.theirs, line) for line in only_theirs(said))
        or any(_has_one(difference.ours, line) for line in only_ours(said))
    }
    for step in {said.step for said in concerned} - differing:
        yield f"{difference.steps}: {step.text} prints the same"


def only_theirs(said: Said) -> list[str]:
    """The lines that a step prints on Apache's servers alone."""
    return [line for gap in gaps(said.theirs, said.ours) for line in gap.theirs]


def only_ours(said: Said) -> list[str]:
    """The lines that a step prints on our servers alone."""
    return [line for gap in gaps(said.theirs, said.ours) for line in gap.ours]


def _has_one(forms: Sequence[str], line: str) -> bool:
    return any(re.fullmatch(form, line) for form in forms)
