"""The page about writing lists every option, every column and every format, with the defaults that they have."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from rocketpy.spark.columns import FIELDS
from rocketpy.spark.settings import GROUP, SinkConfig
from rocketpy.spark.writer.names import OPTIONS
from tests.test_tables_of_pages import tables

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "howto" / "spark-write.md"


@pytest.fixture(scope="module")
def by_head():
    return {rows[0][0]: rows[1:] for rows in tables(PAGE.read_text("utf-8"))}


def test_every_option_is_listed(by_head):
    listed = [name for row in by_head["option"] for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(listed) == sorted([*OPTIONS, "rocketmq.*"])


def test_every_column_is_listed(by_head):
    assert sorted(row[0].strip("`") for row in by_head["column"]) == sorted(FIELDS)


def test_every_format_is_listed(by_head):
    assert [row[0].split("`")[1] for row in by_head["`valueFormat`"]] == ["binary", "string", "json", "msgpack", "avro"]


def test_defaults(by_head):
    defaults = {row[0].strip("`"): row[1].strip("`") for row in by_head["option"]}
    fields = {"badRows": "bad_rows", "failedSends": "failed_sends", "batchSize": "batch_size"}
    for option, field in fields.items():
        assert defaults[option] == str(getattr(attrs.fields(SinkConfig), field).default)
    assert (defaults["group"], defaults["provenance"]) == (GROUP, "true")
