"""Values as Avro: what is sent, and what is said about schemas and rows that do not fit."""

from __future__ import annotations

import importlib.util
import json
import pickle

import pytest

from rocketpy.errors import ConfigError, RowError
from rocketpy.serialization import AvroSerializer
from tests.interop.requirement import require

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "number", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
)
WHOLE = {"columns": '{"value": "*"}', "valueFormat": "avro", "valueSchema": SCHEMA}
KINDS = {"number": "long", "note": "string"}


@pytest.fixture
def _fastavro():
    found = importlib.util.find_spec("fastavro")
    require(None if found else "no fastavro in this environment: it is in the group test")


@pytest.mark.usefixtures("_fastavro")
def test_rows_are_sent_as_avro(write, cluster, namesrv, topic):
    made = pickle.loads(pickle.dumps(write(KINDS, namesrv=namesrv, topic=topic, **WHOLE)))
    made.write(iter([(7, None), (8, "now")]), columns=("number", "note"))
    bodies = sorted(message.body for message in cluster.messages(topic))
    assert bodies == [b"\x0e\x00", b"\x10\x02\x06now"]
    assert [AvroSerializer(SCHEMA).decode(body)["number"] for body in bodies] == [7, 8]


@pytest.mark.usefixtures("_fastavro")
def test_a_row_that_does_not_match_is_a_bad_row(write, cluster, namesrv, topic):
    rows = [(7, None), (None, "x")]
    with pytest.raises(RowError, match=r"row 2 of partition 0: .*does not match the Avro schema"):
        write(KINDS, namesrv=namesrv, topic=topic, **WHOLE).write(iter(rows), columns=("number", "note"))
    written = write(KINDS, namesrv=namesrv, topic=topic, badRows="skip", **WHOLE).write(
        iter(rows), columns=("number", "note")
    )
    assert (written.counts.sent, written.counts.skipped) == (1, 1)


@pytest.mark.usefixtures("_fastavro")
def test_schemas_that_cannot_be_used(write):
    with pytest.raises(ConfigError, match=r"^valueSchema cannot be used: "):
        write(KINDS, **{**WHOLE, "valueSchema": '{"type": "recrd"}'})


def test_a_format_and_its_schema_go_together(write):
    with pytest.raises(ConfigError, match="valueFormat avro needs valueSchema"):
        write(valueFormat="avro")
    with pytest.raises(ConfigError, match="valueSchema is for valueFormat avro"):
        write(valueFormat="json", valueSchema=SCHEMA)
