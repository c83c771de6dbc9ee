"""The names of the versions that peers send as numbers. Pure. Plays the part of MQVersion."""

from __future__ import annotations

from functools import cache

__all__ = ["version_text"]

_FIRST_NUMBERED = 16
"""The number of 3.0.1-SNAPSHOT; those before it are alphas and betas of 3.0.0."""


@cache
def _releases() -> tuple[str, ...]:
    """The releases from 3.0.1 on, in order. Each has two numbers, as before it comes its snapshot."""
    early = [(3, 0, patch) for patch in range(1, 16)]
    # There was no release 3.3.0, nor any other with a 0 from there to 4.0.
    third = [(3, minor, patch) for minor in range(1, 10) for patch in range(10) if patch or minor < 3]
    later = [(major, minor, patch) for major in (4, 5) for minor in range(10) for patch in range(10)]
    return tuple(".".join(map(str, release)) for release in (*early, *third, *later))


def version_text(number: int) -> str:
    """The version that a peer means by a number: "5.3.3", "4.9.8-SNAPSHOT"; "" for none that is known."""
    if 0 <= number < _FIRST_NUMBERED:
        return "3.0.0"
    index, is_release = divmod(number - _FIRST_NUMBERED, 2)
    releases = _releases()
    if not 0 <= index < len(releases):
        return ""
    return releases[index] + ("" if is_release else "-SNAPSHOT")
