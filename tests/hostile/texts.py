"""Texts that would like to write log lines of their own, and the check that none of them could."""

from __future__ import annotations

import logging

import pytest

HOSTILE = (
    "a\r\n2026-01-01 00:00:00 ERROR root: all is lost",
    "a\nb",
    "\x1b[2J\x1b[31mred",
    "a\x00b\x07\x7f\x9b",
    "\u202eesrever\u2028line\u2029",
    "x" * 5000,
    "\n" * 5000,
)
"""Line ends, escape codes, control characters, reversed text, other line ends, and too much of everything."""

_LONGEST_LINE = 2_000
_FORMATTER = logging.Formatter("%(levelname)s %(name)s: %(message)s")


def assert_harmless(caplog: pytest.LogCaptureFixture) -> None:
    """Check what a handler would write: one short printable line a record, the lines of tracebacks indented."""
    assert caplog.records
    for record in caplog.records:
        first, *rest = _FORMATTER.format(record).split("\n")
        assert len(first) < _LONGEST_LINE
        assert first.isprintable(), first
        assert record.exc_info or not rest, first
        assert all(line.startswith("  ") and line.isprintable() for line in rest), rest


def said(caplog: pytest.LogCaptureFixture) -> str:
    """All messages, one a line."""
    return "\n".join(record.getMessage() for record in caplog.records)
