"""The tolerant reader of JSON: what fastjson takes beyond the standard, in steps.

It is for texts that Python's own parser refuses: bare and single-quoted names, names that are numbers or objects,
doubled and trailing commas, comments, numbers with Java's type letters, control characters within text. Plain Python,
so it takes about a microsecond for each value: `read_dialect` is a generator whose steps are short whatever the text.
"""

from __future__ import annotations

import json.decoder
import re
from collections.abc import Callable, Generator
from typing import Any, NoReturn, cast

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.json_literal import MAX_DIGITS, Literal

__all__ = ["read_dialect"]

_STEP = 64
"""Values of one step."""
_MAX_ODD_ESCAPES = 40_000
"""Escapes in one text that only Java knows (or that stand in single quotes): Python reads them one by one."""
_ESCAPES_A_STEP = 1000
"""Of them: half a millisecond."""

# Every repeat is bounded and nearly all are possessive: nothing is tried twice, and no match takes longer than a step
# may.
_COMMENT = r"/\*(?:[^*]{1,4096}+|\*{1,4096}(?!/)){0,64}+\*/|//[^\n]{0,262144}+(?:\n|\Z)"
_BLANK = re.compile(rf"(?:[\x00-\x20]{{1,65536}}+|{_COMMENT}){{0,2048}}+")
_SEPARATORS = re.compile(rf"(?:[\x00-\x20,;]{{1,65536}}+|{_COMMENT}){{0,2048}}+")
_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?[LSBFDlsbfd]?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_$][\w$.@-]*+")
_SET = re.compile(r"(?:Tree)?Set\[")
_DOUBLE = re.compile(r'"((?:[^"\\]++|\\.){0,150000}+)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^'\\]++|\\.){0,150000}+)'", re.DOTALL)
_MEMBER = re.compile(
    r"""[\x00-\x20,;]{0,64}+(['"])([^'"\\]{0,4096}+)\1[\x00-\x20]{0,64}+:[\x00-\x20]{0,64}+(['"])([^'"\\]{0,4096}+)\3"""
)
"""A member of an object that is text without quotes and escapes, as nearly all are, with what separates it."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SOME_ESCAPES = re.compile(
    rf"(?:[^\\]++|\\(?:u[0-9a-fA-F]{{4}}|x[0-9a-fA-F]{{2}}|.)){{1,{_ESCAPES_A_STEP}}}+", re.DOTALL
)
"""Text up to the end of as many escapes as a step may read."""
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}
_scan_text: Callable[[str, int, bool], tuple[str, int]] = cast("Any", json.decoder).scanstring


class _Escaped(str):
    """Text with its escapes still in it."""

    __slots__ = ()


def read_dialect(
    text: str, max_depth: int, max_members: int, write_key: Callable[[Any], str]
) -> Generator[None, None, Any]:
    """Read a whole text; the generator returns the value.

    Args:
        text: what to read.
        max_depth: nesting that is taken.
        max_members: members and elements that are taken, over all levels.
        write_key: makes text of an object that is a key.

    Raises:
        RemoteProtocolError: not readable, too deep, or too many members.
    """
    reader = _Reader(text, max_depth, max_members, write_key)
    if text[:1] == "\ufeff":
        reader.position = 1
    value = yield from reader.value()
    yield from reader.skip(_BLANK)
    if reader.position != len(text):
        reader.fail("text after the end of the value")
    return value


class _Reader:
    """A place in a text, and what may still come."""

    def __init__(self, text: str, max_depth: int, max_members: int, write_key: Callable[[Any], str]) -> None:
        self.text = text
        self.position = 0
        self.max_depth = max_depth
        self.members_left = max_members
        self.odd_escapes_left = _MAX_ODD_ESCAPES
        self.escapes = 0
        """Read since the last step."""
        self.write_key = write_key
        self.within_key = False

    def value(self) -> Generator[None, None, Any]:
        """Any value with all that is in it. A loop: a text that is nested deep costs no frames."""
        around: list[Any] = []
        keys: list[str] = []
        while True:
            yield from self.skip(_BLANK)
            made = self.begin()
            if type(made) is _Escaped:
                made = yield from self.unescaped_steps(made)
            _put(around, keys, made)
            if isinstance(made, (list, dict)):
                around.append(made)
                keys.append("")
                if len(around) > self.max_depth:
                    self.fail("nested too deep")
            elif not around:
                return made
            while (yield from self.closes(around[-1])):
                made = around.pop()
                keys.pop()
                if not around:
                    return made
            if isinstance(around[-1], dict):
                keys[-1] = yield from self.key(len(around))
            if not self.members_left % _STEP or self.escapes > _ESCAPES_A_STEP:
                self.escapes = 0
                yield

    def begin(self) -> Any:
        """A scalar, or the empty structure whose opening bracket was passed."""
        self.members_left -= 1
        if self.members_left < 0:
            self.fail("too many members")
        char = self.text[self.position : self.position + 1]
        if char and char in "{[":
            self.position += 1
            return {} if char == "{" else []
        if char and char in "\"'":
            return self.string()
        if match := _NUMBER.match(self.text, self.position):
            return self.number(match)
        if match := _SET.match(self.text, self.position):
            self.position = match.end()
            return []
        if match := _NAME.match(self.text, self.position):
            self.position = match.end()
            if match.group() in _WORDS:
                return _WORDS[match.group()]
        self.fail("no value")

    def closes(self, structure: Any) -> Generator[None, None, bool]:
        """Skip separators, and take the plain members of an object; whether the structure ends here."""
        bracket = "]" if isinstance(structure, list) else "}"
        while isinstance(structure, dict) and self.plain_members(structure):
            yield
        yield from self.skip(_SEPARATORS)
        if self.position >= len(self.text):
            self.fail(f"no closing {bracket}")
        if self.text[self.position] != bracket:
            return False
        self.position += 1
        return True

    def plain_members(self, found: dict[str, Any]) -> bool:
        """Put the plain members that come next, as many as a step may; whether there may be more."""
        match = _MEMBER.match
        for _ in range(_STEP):
            member = match(self.text, self.position)
            if member is None:
                return False
            self.members_left -= 1
            if self.members_left < 0:
                self.fail("too many members")
            found[member[2]] = member[4]
            self.position = member.end()
        return True

    def key(self, depth: int) -> Generator[None, None, str]:
        """A key and the colon behind it."""
        char = self.text[self.position]
        if char in "\"'":
            found = self.string()
            if type(found) is _Escaped:
                found = yield from self.unescaped_steps(found)
        elif char == "{":
            found = yield from self.object_key(depth)
        elif match := _NAME.match(self.text, self.position) or _NUMBER.match(self.text, self.position):
            self.position = match.end()
            found = match.group()
        else:
            self.fail("no key")
        yield from self.skip(_BLANK)
        if self.text[self.position : self.position + 1] != ":":
            self.fail("no ':' after a key")
        self.position += 1
        return found

    def object_key(self, depth: int) -> Generator[None, None, str]:
        """An object as a key. Not within another one: each level would double the backslashes of the text."""
        if self.within_key:
            self.fail("an object key within an object key")
        self.within_key = True
        self.max_depth -= depth
        found = yield from self.value()
        self.max_depth += depth
        self.within_key = False
        return self.write_key(found)

    def string(self) -> str:
        """Text in double or single quotes; an `_Escaped` when it has too many escapes for one step."""
        start = self.position
        if self.text[start] == '"':
            try:
                found, self.position = _scan_text(self.text, start + 1, False)
            except ValueError:  # an escape that only Java knows, or no end
                pass
            else:
                return found
        match = (_DOUBLE if self.text[start] == '"' else _SINGLE).match(self.text, start)
        if match is None:
            self.fail("text without a closing quote")
        self.position = match.end()
        raw = match.group(1)
        if "\\" not in raw:
            return raw
        return _Escaped(raw) if raw.count("\\") > _ESCAPES_A_STEP else self.unescaped(raw)

    def unescaped(self, raw: str) -> str:
        """Text without its escapes, which are few."""
        found, count = _ESCAPE.subn(_unescape, raw)
        self.count_escapes(count)
        return _paired(found)

    def unescaped_steps(self, raw: str) -> Generator[None, None, str]:
        """The same of many."""
        parts: list[str] = []
        position = 0
        while piece := _SOME_ESCAPES.match(raw, position):
            found, count = _ESCAPE.subn(_unescape, piece.group())
            self.count_escapes(count)
            parts.append(found)
            position = piece.end()
            if position == len(raw):
                break
            self.escapes = 0
            yield
        return _paired("".join(parts))

    def count_escapes(self, count: int) -> None:
        """So many were read; fails when they are too many."""
        self.escapes += count
        self.odd_escapes_left -= count
        if self.odd_escapes_left < 0:
            self.fail(f"more than {_MAX_ODD_ESCAPES} escapes that are not standard JSON")

    def number(self, match: re.Match[str]) -> int | float:
        """A number, with or without a type letter of Java."""
        self.position = match.end()
        text = match.group().rstrip("LSBFDlsbfd")
        if len(text) > MAX_DIGITS:
            self.fail("number with too many digits")
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return Literal(text)
        except ValueError:
            self.fail("number that is out of range")

    def skip(self, pattern: re.Pattern[str]) -> Generator[None, None, None]:
        """Move past what does not count."""
        while True:
            match = pattern.match(self.text, self.position)
            if match is None or match.end() == self.position:
                return
            size = match.end() - self.position
            self.position = match.end()
            if size < 1024:
                # Far from what a match can take at once: this is all there is.
                return
            yield

    def fail(self, why: str) -> NoReturn:
        """Give up on the text."""
        raise RemoteProtocolError(f"not readable as JSON: {why} at character {self.position}")


def _put(around: list[Any], keys: list[str], value: Any) -> None:
    """Put a value into the innermost structure, where there is one."""
    if not around:
        return
    structure = around[-1]
    if isinstance(structure, list):
        structure.append(value)
    else:
        structure[keys[-1]] = value


def _paired(text: str) -> str:
    """Text in which two halves of a character that were escaped one by one are that character."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape(match: re.Match[str]) -> str:
    code: str = match[match.lastindex or 0]
    return chr(int(code, 16)) if len(code) > 1 else _SIMPLE_ESCAPES.get(code, code)
