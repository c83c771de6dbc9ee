"""The Spark demo and the example of a sink without Spark: what they count, compare and say. tests/spark starts them."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from examples.quickstart.records import UnreadableInputError
from examples.spark_demo.compare import show, verdict
from examples.spark_demo.interrupts import interrupts_wait, quiet_when_interrupted
from examples.spark_demo.progress import shown
from examples.spark_demo.server import own_server
from examples.spark_demo.source import check_columns
from examples.spark_demo.tally import Tally
from rocketpy.message import Message, MessageExt
from rocketpy.sync import Producer

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false pyspark-shell"}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=os.environ | QUIET, capture_output=True, text=True, timeout=200)


def test_the_example_is_short() -> None:
    assert len((ROOT / "examples" / "spark_sink.py").read_text("utf-8").splitlines()) < 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["no-such-file.csv"], "no-such-file.csv is not a file"),
        (["README.md", "--namesrv", "127.0.0.1:1"], "no name server"),
        (["--value", "price"], "--group and --value are for a CSV file: name it first"),
        (["README.md", "--out", "there"], "--out is for the flights"),
        (["--rows", "0"], "must be a whole number from 1 on, not '0'"),
    ],
)
def test_what_cannot_work_is_one_line(arguments: list[str], reason: str, java: None) -> None:
    ran = run("examples.spark_demo", *arguments)
    assert ran.returncode == 2
    assert reason in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("task", ["spark-demo", "spark"])
def test_the_command_says_so_before_it_installs_anything(tmp_path: Path, task: str) -> None:
    command = [sys.executable, ROOT / "dev", task]
    ran = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("dev: Spark needs Java 17 or newer, but there is no java on PATH.")


def test_a_column_that_is_not_there() -> None:
    check_columns(Path("own.csv"), ["shop", "cups"], ["cups"])
    with pytest.raises(UnreadableInputError, match=r"^own.csv has no column 'none'; it has shop, cups$"):
        check_columns(Path("own.csv"), ["shop", "cups"], ["cups", "none"])


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is new enough, wherever the tests run; nothing gets as far as using it."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def arrived(number: int, group: str | None, value: object) -> MessageExt | Message:
    origin = {"SPARK_APP": "local-1", "SPARK_STAGE": "4", "SPARK_PART": "0", "SPARK_SEQ": str(number)}
    body = json.dumps({"shop": group, "price": value, "cups": 1 if value else None})
    return Message("T", body.encode(), properties=origin)


def test_what_came_twice_is_counted_once() -> None:
    tally = Tally("shop", ("price", "cups"))
    tally.take([arrived(1, "N", "2.250000000"), arrived(2, "N", 0.1), arrived(3, None, None)])
    tally.take([arrived(2, "N", 0.1), arrived(4, "S", "-1")])
    assert (tally.received, tally.duplicates) == (4, 1)
    assert tally.totals() == {"N": (2, Decimal("2.35"), 2), None: (1, None, None), "S": (1, -1, 1)}


def test_what_differs_is_said() -> None:
    spark = {"N": (2, Decimal("2.35")), "S": (1, None)}
    assert verdict("shop", spark, dict(spark)) == (
        True,
        "totals from the messages equal Spark's: 3 of 3 rows, 2 groups by shop",
    )
    for messages in ({"N": (2, Decimal("2.35"))}, spark | {"N": (2, Decimal("2.36"))}, spark | {"X": (1, None)}):
        equal, text = verdict("shop", spark, messages)
        assert not equal
        assert text.startswith("TOTALS FROM THE MESSAGES DIFFER FROM SPARK'S: ")


def test_the_table_has_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    show("shop", ["price"], {"N": (2, Decimal("2.350000000")), "a\nb": (1, None)}, {"N": (1200, Decimal(1200))})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["shop", "rows", "by", "messages", "price", "by", "messages"],
        ["N", "2", "1,200", "2.35", "1,200"],
        ["a", "b", "1", "missing", "-", "missing"],
    ]


def test_names_of_any_length_keep_to_their_column(capsys: pytest.CaptureFixture[str]) -> None:
    name = "\x1b[2J" + "x" * 300
    show(name, [name], {name: (1, 2)}, {name: (1, 2)})
    _, said = verdict(name, {}, {})
    lines = [*capsys.readouterr().out.splitlines(), said]
    assert all(len(line) < 150 and line.isprintable() for line in lines)
    assert all(" [2J" + "x" * 33 + "..." in line for line in lines)


def test_names_with_brackets_are_no_styles(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show("price [eur]", [], {"[bold]": (1,)}, {"[bold]": (1,)})
    shown_to_people = capsys.readouterr().out
    assert "price [eur]" in shown_to_people
    assert "[bold]" in shown_to_people


def test_an_interrupt_waits_for_the_end_of_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    before, reached = signal.getsignal(signal.SIGINT), []

    def interrupted_twice() -> None:
        with interrupts_wait():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        interrupted_twice()
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().err == "stopping as soon as Spark has started\n"


def test_an_interrupted_call_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger()
    before = root.filters[:]
    quiet_when_interrupted()
    try:
        for error in (KeyboardInterrupt(), OSError()):
            try:
                raise error
            except (KeyboardInterrupt, OSError):
                root.exception("%s while sending command.", type(error).__name__)
    finally:
        root.filters[:] = before
    assert caplog.messages == ["OSError while sending command."]


def test_progress_without_a_terminal_is_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("examples.spark_demo.progress.TICK", 0.001)
    monkeypatch.setattr("examples.spark_demo.progress.LINE_EVERY", 0.0)
    looked = threading.Event()

    def received() -> int:
        looked.set()
        return 1

    with shown(2000, {"sent": lambda: 2000, "received": received}):
        assert looked.wait(10)
    (line,) = capsys.readouterr().out.splitlines()  # one for what does not change
    assert line.split() == ["2,000", "sent", "1", "received"]


@pytest.mark.slow
def test_the_embedded_server_is_a_process_of_its_own_and_ends_with_the_block() -> None:
    with own_server() as address, Producer("p", namesrv=address) as producer:
        producer.create_topic("T", queues=1)
        assert len(producer.queues("T")) == 1
