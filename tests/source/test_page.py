"""The page about reading lists every option and every column, with the types and defaults that they have."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from rocketpy.spark.source.names import OPTIONS
from rocketpy.spark.source.options import SourceOptions
from rocketpy.spark.source.shape import COLUMNS
from tests.test_tables_of_pages import tables

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "howto" / "spark-read.md"


@pytest.fixture(scope="module")
def by_head():
    return {rows[0][0]: rows[1:] for rows in tables(PAGE.read_text("utf-8"))}


def test_every_option_is_listed(by_head):
    listed = [name for row in by_head["option"] for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(listed) == sorted([*OPTIONS, "rocketmq.*"])


def test_every_column_is_listed_with_its_type(by_head):
    words = {
        "array<string>": "array of strings",
        "map<string,string>": "map of strings",
        "binary": "binary, or as `valueFormat` says",
    }
    expected = [[f"`{name}`", words.get(kind, kind)] for name, kind in COLUMNS.items()]
    assert [row[:2] for row in by_head["column"]] == expected


@pytest.mark.parametrize(
    ("option", "field", "scale"),
    [
        ("pullBatchSize", "pull_batch_size", 1),
        ("pullTimeoutMs", "pull_timeout", 1000),
        ("fetchOffset.numRetries", "retries", 1),
        ("fetchOffset.retryIntervalMs", "retry_interval", 1000),
    ],
)
def test_defaults(by_head, option, field, scale):
    (row,) = [row for row in by_head["option"] if row[0] == f"`{option}`"]
    assert float(row[1]) == getattr(attrs.fields(SourceOptions), field).default * scale
