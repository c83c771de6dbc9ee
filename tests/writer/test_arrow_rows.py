"""Record batches become tuples with the values that rows of PySpark have."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from rocketpy.errors import RowError
from rocketpy.spark.columns import PUTS
from rocketpy.spark.writer.schema import Selection


def naive(*parts):
    """A time without a zone."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


@pytest.fixture
def in_new_york(monkeypatch):
    """A process in another time zone than UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def values(array):
    from rocketpy.spark.writer.arrow_rows import values_of

    return values_of(array)


def rows(batch, *names, moments=()):
    from rocketpy.spark.writer.arrow_rows import rows_of

    places = tuple(batch.schema.get_field_index(name) for name in names)
    return list(rows_of(batch, Selection(names, places, frozenset(moments))))


def test_only_the_selected_columns_are_read(pyarrow):
    batch = pyarrow.record_batch({"a": [1, 2], "b": [b"x", None], "c": ["p", "q"]})
    assert rows(batch, "b", "c") == [(b"x", "p"), (None, "q")]


def test_single_values_are_those_of_python(pyarrow):
    given = [5, -1.5, True, "text", b"\xff", Decimal("1.50"), date(2026, 1, 2), timedelta(hours=1), None]
    for value in given:
        array = pyarrow.array([value, None])
        assert values(array) == [value, None]


def test_times_are_in_the_zone_of_the_process(pyarrow, in_new_york):
    moments = [datetime(2026, 7, 1, 12, 0, 0, 5, tzinfo=UTC), None, datetime(1950, 1, 1, tzinfo=UTC)]
    expected = [naive(2026, 7, 1, 8, 0, 0, 5), None, naive(1949, 12, 31, 19)]
    for zone in ("UTC", "Europe/Berlin"):
        assert values(pyarrow.array(moments, pyarrow.timestamp("us", tz=zone))) == expected
    unzoned = [naive(2026, 7, 1, 12, 0, 0, 5), None]
    assert values(pyarrow.array(unzoned, pyarrow.timestamp("us"))) == unzoned


def test_times_of_delivery_are_milliseconds(pyarrow, in_new_york):
    """They are what the column itself would have become, but take less time."""
    kind = pyarrow.timestamp("us", tz="UTC")
    given = [datetime(2026, 7, 1, 12, 0, 0, 1499, tzinfo=UTC), datetime(2026, 7, 1, 12, 0, 0, 1501, tzinfo=UTC), None]
    batch = pyarrow.record_batch({"at": pyarrow.array(given, kind)})
    found = [at for (at,) in rows(batch, "at", moments=["at"])]
    assert found == [1782907200001, 1782907200002, None]
    for number, (moment,) in zip(found[:2], rows(batch, "at"), strict=False):
        properties: list[dict[str, str]] = [{}, {}]
        PUTS["deliver_at"](properties[0], number)
        PUTS["deliver_at"](properties[1], moment)
        assert properties[0] == properties[1]


def test_times_of_delivery_in_1970_are_none_of_seconds(pyarrow, in_new_york):
    early = datetime(1970, 1, 2, 0, 0, 0, 7000, tzinfo=UTC)
    batch = pyarrow.record_batch({"at": pyarrow.array([early], pyarrow.timestamp("us", tz="UTC"))})
    ((found,),) = rows(batch, "at", moments=["at"])
    properties: dict[str, str] = {}
    PUTS["deliver_at"](properties, found)
    assert properties == {"TIMER_DELIVER_MS": "86400007"}


def nested(pyarrow):
    at = pyarrow.timestamp("us", tz="UTC")
    maps = pyarrow.map_(pyarrow.string(), pyarrow.string())
    times = pyarrow.map_(pyarrow.string(), at)
    inner = pyarrow.struct([("at", at), ("pairs", maps)])
    moment, local = datetime(2026, 7, 1, 12, tzinfo=UTC), naive(2026, 7, 1, 8)
    return [
        (maps, [[("a", "1"), ("b", None)], [], None], [{"a": "1", "b": None}, {}, None]),
        (times, [[("a", moment)], None, []], [{"a": local}, None, {}]),
        (pyarrow.list_(maps), [[[("a", "1")], None], None, []], [[{"a": "1"}, None], None, []]),
        (pyarrow.list_(at), [[moment, None], [], None], [[local, None], [], None]),
        (pyarrow.large_list(at), [[moment], [], None], [[local], [], None]),
        (
            inner,
            [{"at": moment, "pairs": [("a", "1")]}, None, {"at": None, "pairs": None}],
            [{"at": local, "pairs": {"a": "1"}}, None, {"at": None, "pairs": None}],
        ),
        (pyarrow.struct([("n", pyarrow.int64())]), [{"n": 1}, None, {"n": None}], [{"n": 1}, None, {"n": None}]),
    ]


def test_nested_values_whole_and_in_slices(pyarrow, in_new_york):
    for kind, given, expected in nested(pyarrow):
        array = pyarrow.array(given * 3, kind)
        assert values(array) == expected * 3
        for start in range(len(array)):
            for size in range(len(array) - start):
                assert values(array.slice(start, size)) == (expected * 3)[start : start + size]


def test_an_empty_batch(pyarrow):
    batch = pyarrow.record_batch({"value": pyarrow.array([], pyarrow.binary())})
    assert rows(batch, "value") == []


TOO_LATE = 300_000_000_000
"""Seconds since 1970, in the year 11476."""


def unreadable(pyarrow):
    """For each type, an array whose second value Python cannot have, and what is said of it."""
    moment, late = pyarrow.timestamp("us", tz="UTC"), [0, TOO_LATE * 1_000_000, 1]
    time = "holds a date or time outside of the years 1 to 9999: cast it to a string"
    binary = pyarrow.array([b"a", b"\xff", b"b"])
    text = pyarrow.Array.from_buffers(pyarrow.string(), 3, binary.buffers())
    return [
        ("timestamp", pyarrow.array(late, moment), time),
        ("timestamp", pyarrow.array([0, -62_135_700_000_000_000, 1], moment), time),
        ("timestamp_ntz", pyarrow.array(late, pyarrow.timestamp("us")), time),
        ("date", pyarrow.array([0, TOO_LATE // 86_400, 1], pyarrow.date32()), time),
        ({"type": "array", "elementType": "timestamp"}, pyarrow.array([[0], late, []], pyarrow.list_(moment)), time),
        ("string", text, "holds text that is not valid UTF-8: cast it to binary, or mend it where it is made"),
    ]


def test_a_value_that_python_cannot_have_makes_a_bad_row(pyarrow, write, cluster, namesrv, topic):
    stored = 0
    for kind, array, said in unreadable(pyarrow):
        batch = pyarrow.record_batch({"v": array, "keys": ["k1", "k2", "k3"]})
        for value_format in ("json", "msgpack", "string")[: 3 if isinstance(kind, str) else 2]:
            for columns in ('{"value": "v"}', '{"value": "*"}')[: 1 if value_format == "string" else 2]:
                given = {"namesrv": namesrv, "topic": topic, "columns": columns, "valueFormat": value_format}
                made = write({"v": kind, "keys": "string"}, **given, badRows="skip")
                taken = rows(batch, "v", "keys")
                counts = made.write(iter(taken), columns=("v", "keys")).counts
                assert (counts.sent, counts.skipped) == (2, 1)
                stored += 2
        with pytest.raises(RowError, match="row 2 of partition 0 .*'k2'.*: the column 'v' " + said):
            write({"v": kind, "keys": "string"}, **{**given, "columns": '{"value": "v"}'}).write(
                iter(taken), columns=("v", "keys")
            )
    assert len(cluster.messages(topic)) >= stored


def test_a_dedupe_key_that_python_cannot_have_makes_a_bad_row(pyarrow, write, namesrv, topic):
    given = {"namesrv": namesrv, "topic": topic, "provenance": "true", "jobId": "j", "dedupeKey": "at"}
    for kind, array, said in unreadable(pyarrow):
        if isinstance(kind, str):
            batch = pyarrow.record_batch({"value": [b"a", b"b", b"c"], "at": array})
            made = write({"value": "binary", "at": kind}, **given, badRows="skip")
            counts = made.write(iter(rows(batch, "value", "at")), columns=("value", "at")).counts
            assert (counts.sent, counts.skipped) == (2, 1)
            made = write({"value": "binary", "at": kind}, **given)
            with pytest.raises(RowError, match=f"row 2 of partition 0: the dedupe key, column 'at', {said}"):
                made.write(iter(rows(batch, "value", "at")), columns=("value", "at"))
