"""Nothing that a peer sends writes log lines of its own: one place escapes, and every logger comes from it."""

from __future__ import annotations

import ast
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import BrokerError, RocketMQError
from rocketpy.logs import MAX_TEXT, Seldom, counted, get_logger, printable, quote, shown, tell_left_out
from tests.hostile.texts import HOSTILE, assert_harmless, said

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = [path for folder in ("rocketpy", "rocketpy_broker_sim") for path in sorted((ROOT / folder).rglob("*.py"))]
# The modules that make loggers; the commands also set up the handlers of the root logger, and log nothing by it.
MAKERS = {"rocketpy/logs.py", "rocketpy_broker_sim/cli/logs.py"}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGGERS = {"log", "logger", "_log", "_logger"}
SELDOM = {"seldom", "_seldom"}
"""Of these the cause comes before the text."""

logger = get_logger("tests.hostile")


@given(st.text(st.characters(exclude_categories=())))
def test_threat_A5_any_text_becomes_one_short_line(text: str) -> None:
    line = printable(text)
    assert line.isprintable()
    assert len(line) <= MAX_TEXT
    assert printable(line) == line
    if text.isprintable() and len(text) <= MAX_TEXT:
        assert line == text


def test_text_is_escaped_as_repr_does_it() -> None:
    assert quote("a\r\n\x1b\x00\x9b\u2028\ud800é☃'\"") == "a\\r\\n\\x1b\\x00\\x9b\\u2028\\ud800é☃'\""


class Rude:
    """An object whose texts are as bad as its fields."""

    def __str__(self) -> str:
        return "\r\nrude"

    def __repr__(self) -> str:
        return "\x1brude"


@pytest.mark.parametrize("text", HOSTILE)
def test_threat_A5_arguments_are_escaped_whatever_they_are(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        logger.debug("%s and %r and %.100r", text, text, [text])
        logger.info("%s: %s", Rude(), RocketMQError(text))
        logger.info("%r at %d and %.1f for %5s", Rude(), 7, 1.5, True)
        logger.info("%s", {text: text, "more": list(text)})
        logger.info("%(which)s", {"which": text})
        logger.warning("no argument")
    assert_harmless(caplog)
    assert "'\\x1brude' at 7".replace("'", "") in said(caplog)
    assert "1.5" in said(caplog)


def test_threat_A5_a_traceback_cannot_pass_for_a_record(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("first\nERROR root: all is lost \x1b[31m")
    except ValueError as error:
        logger.warning("it failed", exc_info=error)
    assert_harmless(caplog)
    text = logging.Formatter().format(caplog.records[0])
    assert "\n  ERROR root: all is lost \\x1b[31m" in text
    assert "tests/test_logs.py" in text


@pytest.mark.parametrize("text", HOSTILE)
def test_threat_A5_the_error_of_an_answer_is_one_line_and_keeps_the_remark(text: str) -> None:
    error = BrokerError.for_code(1, text, address="b:1", doing="a send")
    assert str(error).isprintable()
    assert len(str(error)) < MAX_TEXT + 60
    assert error.remark == text


def test_a_logger_escapes_once_and_stays_the_logger_of_its_name() -> None:
    assert get_logger("tests.hostile") is logger is logging.getLogger("tests.hostile")
    assert len(logger.filters) == 2


# --- no more often than once a second ---------------------------------------------------------------------


def test_a_cause_is_told_once_a_second_and_the_next_line_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    seldom = Seldom(logger, clock=lambda: now)
    for tick in range(25):
        now = tick / 10
        seldom.warning("orders", "the listener of %s failed", "Orders")
        if tick == 3:
            seldom.error("bills", "the listener of %s failed", "Bills")
    assert [record.getMessage() for record in caplog.records] == [
        "the listener of Orders failed",
        "the listener of Bills failed",
        "the listener of Orders failed (and 9 more like this since the last such line)",
        "the listener of Orders failed (and 9 more like this since the last such line)",
    ]


def test_causes_do_not_pile_up(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(logger)
    for number in range(3000):
        seldom.warning(number, "%d failed", number)
    assert len(seldom._causes) == 1024


def test_seldom_says_the_last_count_too(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(logger, clock=lambda: 0.0)
    for number in range(5):
        seldom.warning("orders", "message %d of %s failed", number, "Orders")
    seldom.tell()
    seldom.tell()
    assert [record.getMessage() for record in caplog.records] == [
        "message 0 of Orders failed",
        "4 more lines left out, the last of them: message 4 of Orders failed",
    ]


# --- no more than somebody can read ---------------------------------------------------------------------


@pytest.mark.slow
def test_one_place_cannot_fill_the_disk(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("rocketpy.logs.time.monotonic", lambda: now)
    flooded = get_logger("tests.flooded")
    for number in range(100_000):
        now = number / 1000
        flooded.warning("peer %d knocks", number)
    assert 1000 <= len(caplog.records) <= 1110
    said_out = [re.search(r"\(left out: (\d+) lines? like this\)", each.getMessage()) for each in caplog.records]
    told = sum(int(each.group(1)) for each in said_out if each)
    lines = len(caplog.records)
    tell_left_out()
    last = next(each.getMessage() for each in reversed(caplog.records) if each.name == "tests.flooded")
    assert last.endswith("lines left out, the last of them: peer 99999 knocks")
    assert lines + told + int(last.split()[0]) == 100_000
    flooded.warning("other places are heard all the while")
    assert caplog.records[-1].getMessage() == "other places are heard all the while"


def test_what_is_for_debugging_is_not_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    flooded = get_logger("tests.flooded.again")
    for number in range(500):
        flooded.debug("%d", number)
    assert len(caplog.records) == 500


# --- every logger comes from there ----------------------------------------------------------------------


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]


def attribute(call: ast.Call) -> tuple[str, str]:
    """`("logger", "info")` for `logger.info(...)` and `self.logger.info(...)`; empty texts for other calls."""
    if not isinstance(call.func, ast.Attribute):
        return "", ""
    owner = call.func.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name, call.func.attr


@pytest.mark.slow
def test_threat_A5_no_logger_is_made_elsewhere() -> None:
    raw = {
        path.relative_to(ROOT).as_posix()
        for path in LIBRARY
        for call in calls(path)
        if attribute(call)[1] == "getLogger"
    }
    assert raw == MAKERS


@pytest.mark.slow
def test_threat_A5_no_text_is_put_into_a_message_before_its_logger_sees_it() -> None:
    found = 0
    for path in LIBRARY:
        for call in calls(path):
            owner, method = attribute(call)
            if owner in LOGGERS | SELDOM and method in LEVELS:
                found += 1
                text = call.args[(method == "log") + (owner in SELDOM)]
                assert isinstance(text, ast.Constant), f"{path}:{call.lineno} formats its text itself"
    assert found > 80


def test_counts_are_singular_and_plural() -> None:
    assert [counted(number, "more line") for number in (0, 1, 2)] == ["0 more lines", "1 more line", "2 more lines"]


def test_what_users_give_is_shown_short() -> None:
    assert shown("x" * 10**6) == "'" + "x" * 99
    assert shown([1, "a"]) == "[1, 'a']"
    assert shown(b"abc", most=4) == "b'ab"


@pytest.mark.slow
def test_importing_configures_no_logging_and_writes_no_files(tmp_path: Path) -> None:
    """Where lines go is for the program to say, which may only be a script that somebody tries."""
    program = """
import logging, rocketpy, rocketpy.aio, rocketpy.sync
from rocketpy import Message, Producer
loggers = [logging.root, *map(logging.getLogger, logging.root.manager.loggerDict)]
print([each.name for each in loggers if each.handlers], logging.root.level)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert (ran.stdout, ran.stderr) == ("[] 30\n", "")
    assert list(tmp_path.iterdir()) == []
