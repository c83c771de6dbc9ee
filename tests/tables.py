"""Tables that are tested row by row in one test: all rows that fail are told, each by its name."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import pytest

__all__ = ["Table"]

TOLD = 20
"""Rows whose failures are shown; the others are only named."""


class Table:
    """Collects the rows that fail, and fails with all of them at its end; also when it had no row at all.

    For tables whose rows name themselves; a row that someone wants to run alone is a parameter of its test instead.

    Example::

        with Table() as table:
            for text, number in NUMBERS:
                with table.row(text):
                    assert parse(text) == number
    """

    def __init__(self) -> None:
        self._rows = 0
        self._failed: list[tuple[object, str]] = []

    @contextmanager
    def row(self, name: object) -> Iterator[None]:
        """One row: what fails in here is kept for the end."""
        self._rows += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - all told at the end
            at = traceback.extract_tb(failure.__traceback__)[1:]
            where = "\n".join(f"{each.filename}:{each.lineno} {each.line}" for each in at)
            self._failed.append((name, f"{where}\n{type(failure).__name__}: {failure}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        assert self._rows, "the table has no rows"
        names = ", ".join(f"{name}" for name, _ in self._failed)
        shown = "\n".join(f"--- {name}\n{why}" for name, why in self._failed[:TOLD])
        assert not self._failed, f"{len(self._failed)} of {self._rows} rows fail: {names}\n{shown}"
