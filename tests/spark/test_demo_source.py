"""The rows of the demo as Spark reads them: what is summed is exact, whatever the file makes of it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.quickstart.records import UnreadableInputError
from examples.spark_demo.source import own_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CSV = "shop,cups,price.€,note\n" + "\n".join(
    ('"a, b",1,0.1,"two\nlines"', '"a, b",2,0.2,"say ""x"""', "c,,1e3,4", ",3,,none", "")
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.csv"
    path.write_text(CSV, "utf-8")
    return path


def test_the_first_column_and_the_first_two_numbers(spark: SparkSession, file: Path) -> None:
    source = own_file(spark, file, None, [])
    assert (source.name, source.group, source.values) == ("own.csv", "shop", ("cups", "price.€"))
    assert source.totals() == {
        "a, b": (2, 3, Decimal("0.3")),
        "c": (1, None, 1000),
        None: (1, 3, None),
    }
    assert {row["note"] for row in source.rows.collect()} == {"two\nlines", 'say "x"', "4", "none"}


def test_columns_of_ones_own(spark: SparkSession, file: Path) -> None:
    source = own_file(spark, file, "cups", ["note", "price.€"])
    assert source.totals() == {
        "1": (1, None, Decimal("0.1")),
        "2": (1, None, Decimal("0.2")),
        "3": (1, None, None),
        None: (1, 4, 1000),
    }


def test_what_cannot_be_used(spark: SparkSession, file: Path) -> None:
    with pytest.raises(UnreadableInputError, match="has no column 'none'; it has shop, cups, price"):
        own_file(spark, file, "none", [])
    for text in ("", "a,b\n"):
        file.write_text(text, "utf-8")
        with pytest.raises(UnreadableInputError, match="holds no records"):
            own_file(spark, file, None, [])
