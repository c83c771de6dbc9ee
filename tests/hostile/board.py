"""A board of numbers that two processes see at once: a file that both map, with a line of text at its end."""

from __future__ import annotations

import mmap
from pathlib import Path

LINE = 240
"""Bytes of the line of text."""


class Board:
    """Named numbers of 64 bits and a line; written by one process, read (and set back) by another.

    Attributes:
        words: The numbers, in the order of their names: for those who must be quick.
    """

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        size = 8 * len(names) + LINE
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._places = {name: place for place, name in enumerate(names)}
        self._line = 8 * len(names)
        self.words = memoryview(self._map)[: self._line].cast("q")

    def __getitem__(self, name: str) -> int:
        return self.words[self._places[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self.words[self._places[name]] = value

    @property
    def line(self) -> str:
        return self._map[self._line :].rstrip(b"\0").decode("utf-8", "replace")

    @line.setter
    def line(self, text: str) -> None:
        self._map[self._line :] = text.encode()[:LINE].ljust(LINE, b"\0")
