"""Tables and JSON: what is drawn where, what is cut, and that nothing in them commands a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import Enum

import attrs
import pytest

from rocketpy.cli import output
from rocketpy.cli.output import Column, Output, named, rate, time
from rocketpy.cli.rows import java_name, row
from rocketpy.cli.values import moment, pairs, quoted, seconds_of
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.seams import wall_clock

RED = "\x1b[31m"


def printed(capsys: pytest.CaptureFixture[str], columns: list[Column], *rows: dict[str, object]) -> list[str]:
    Output(as_json=False).rows(columns, rows, empty="nothing")
    return capsys.readouterr().out.splitlines()


def test_columns_are_as_wide_as_what_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [named("name", "name"), Column("count", "count", True), rate("rate", "rate"), time("at", "at")]
    rows = [{"name": "a", "count": 5, "rate": 1.25, "at": 0}, {"name": None, "count": None, "rate": None, "at": None}]
    assert printed(capsys, columns, *rows) == [
        "name  count  rate  at (UTC)",
        "a         5   1.2  -",
        "-         -     -  -",
    ]
    assert printed(capsys, columns) == ["nothing"]


def test_names_are_whole_and_other_cells_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 80
    _, line = printed(capsys, [named("name", "text"), Column("text", "text")], {"text": long})
    assert line.split() == [long, "x" * 57 + "..."]


@pytest.mark.parametrize(
    "column", [named("c", "v"), Column("c", "v"), Column("c", lambda row: f"<{row['v']}>"), output._VALUE]
)
def test_control_characters_are_escaped_in_every_column(capsys: pytest.CaptureFixture[str], column: Column) -> None:
    found = {"v": f"{RED}\nforged \u202e", "value": f"{RED}\nforged \u202e"}
    _, line = printed(capsys, [column], found)
    assert "\\x1b[31m\\nforged \\u202e" in line


def test_notes_are_escaped_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).note(f"\n{RED}total")
    Output(as_json=False).done(f"deleted {RED}\nx")
    Output(as_json=True).note("for people")
    assert capsys.readouterr().out == "\n\\x1b[31mtotal\ndeleted \\x1b[31m\\nx\n"


def test_without_rich_a_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for found, drawn in ((object(), True), (None, False)):
        monkeypatch.setattr(output, "find_spec", lambda name, found=found: found)
        assert Output(as_json=False).is_drawn is drawn
        assert Output(as_json=True).is_drawn is False


class _Kind(Enum):
    ONE = "one"


@attrs.frozen
class _Inner:
    some_number: int


@attrs.frozen
class _Result:
    queue: MessageQueue
    stored_at: datetime | None
    kind: _Kind
    inner: tuple[_Inner, ...]
    values: dict[int, str]
    error: Exception | None = None

    @property
    def twice_a_day(self) -> int:
        return 2


def test_results_become_rows_in_javas_spelling() -> None:
    found = _Result(
        MessageQueue("Orders", "broker-a", 3),
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        _Kind.ONE,
        (_Inner(5),),
        {0: "a"},
        ConfigError("no"),
    )
    assert json.loads(json.dumps(row(found, "twice_a_day"))) == {
        "topic": "Orders",
        "broker": "broker-a",
        "queueId": 3,
        "storedAt": 1000,
        "kind": "one",
        "inner": [{"someNumber": 5}],
        "values": {"0": "a"},
        "error": "no",
        "twiceADay": 2,
    }
    assert java_name("name") == "name"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1577836800000", 1577836800000),
        ("1970-01-01T00:00:02", 2000),
        ("1970-01-01T02:00+02:00", 0),
        ("1969-01-01", 0),
        ("30m", 8_200_000),
        ("2s", 9_998_000),
        ("1d", 0),
    ],
)
def test_times_are_understood(text: str, expected: int) -> None:
    with wall_clock(lambda: 10_000_000):
        assert moment("--to", text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5h", "2026-13-01", "9" * 30, "٣m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--to must be a date such as"):
        moment("--to", text)


def test_pairs() -> None:
    assert pairs("a setting", ["a=1", "b=", "c=d=e"]) == {"a": "1", "b": "", "c": "d=e"}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(ConfigError, match=r"^a setting"):
            pairs("a setting", wrong)
    assert (quoted({"a": 1, "b": "x"}), quoted({})) == ("a=1, b=x", "-")


def test_durations() -> None:
    assert [seconds_of("--delay", each) for each in ("3", "0.5", "20ms", "1.5s", "2m", "1h", "1d")] == [
        *(3, 0.5, 0.02, 1.5, 120, 3600, 86400),
    ]
    for wrong in ("", "-1", "1w", "x", "1e3", "inf", "١"):
        with pytest.raises(ConfigError, match="--delay must be seconds"):
            seconds_of("--delay", wrong)
