"""What a command printed, without what differs from run to run: addresses, ids, times, sizes, large numbers. Pure.

What is left are the lines with their columns, parted by one space, and numbers of at most three digits, such as offsets
in queues: they have to be the same. Of a refusal its code is left, not its words.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Gap", "flat", "gaps", "plain"]

_TRACE = re.compile(r"^\s+at |^\s+\.\.\. \d+ (more|common frames omitted)|^\s*$")
"""Where an exception of the tool came from, and empty lines."""
_SHAPES = (
    (
        re.compile(
            r"(See|For more information, please visit the url,) https?://\S*?(FAQ|/faq/)( for further details\.)?"
        ),
        "<advice>",
    ),
    (re.compile(r"(?<=DESC: ).*"), "<remark>"),
    (re.compile(r"\bV\d+(_\d+)+\b"), "<version>"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b(:\d+)?"), "<address>"),
    (re.compile(r"\b[0-9A-F]{32}\b"), "<id>"),
    (re.compile(r"@\d+#\d+#[0-9a-f]{8}\b"), "@<client>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d([.,:]\d{1,3})?\b"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)? ([KMGT]i)?B\b"), "<size>"),
    (re.compile(r"(?i)(?<=offset[=:])( *)\d{3,}"), r"\1#"),
    (re.compile(r"(?<=dataVersion\.counter = )\d+"), "#"),
    (re.compile(r"-?\d+\.\d+(E-?\d+)?%?|-?\d{4,}"), "#"),
    (re.compile(r"\s+"), " "),
)
_NUMBER = re.compile(r"(?<!CODE: )(?<!\d)-?\d+%?")


def plain(printed: str, places: Mapping[str, str], *, measured: bool = False) -> list[str]:
    """The lines of what a command printed.

    Args:
        printed: the text.
        places: what the scene calls the things of this cluster, by name.
        measured: whether its small numbers are rates or spans of time, and so are to be left out too.
    """
    known = sorted(((value, name) for name, value in places.items()), key=lambda each: -len(each[0]))
    for value, name in known:
        printed = printed.replace(value, f"{{{name}}}")
    lines = [_plain_line(line) for line in printed.splitlines() if not _TRACE.match(line)]
    return [_NUMBER.sub("#", line) for line in lines] if measured else lines


def _plain_line(line: str) -> str:
    for pattern, instead in _SHAPES:
        line = pattern.sub(instead, line)
    return line.strip()


def flat(value: object, path: str = "") -> Iterator[str]:
    """The members of a JSON value, each with its path."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from flat(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for each in value:
            yield from flat(each, f"{path}[]")
    else:
        yield f"{path} = {json.dumps(value)}"


@dataclass(frozen=True)
class Gap:
    """A place where the two texts differ: the lines of each that are not in the other."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]


def gaps(theirs: Sequence[str], ours: Sequence[str]) -> Iterator[Gap]:
    """Where the texts differ, in order."""
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind != "equal":
            yield Gap(tuple(theirs[first:last]), tuple(ours[begin:end]))
