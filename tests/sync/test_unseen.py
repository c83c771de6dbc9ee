"""Failures that nobody has looked at, told as the process ends."""

from __future__ import annotations

from weakref import WeakSet

import pytest

from rocketpy.sync.unseen import Failures


def test_one_that_is_noted_while_they_are_told_keeps_none_from_being_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = Failures("pg")
    kept = [failures.note(RuntimeError(f"number {number}")) for number in range(3)]
    real = WeakSet.__iter__

    def struck(living):  # type: ignore[no-untyped-def]
        for each in real(living):
            if len(kept) == 3:  # as a thread does that runs between two steps
                kept.append(failures.note(RuntimeError("late")))
            yield each

    with monkeypatch.context() as patch:
        patch.setattr(WeakSet, "__iter__", struck)
        failures.tell_all()
    assert "4 messages of producer pg were not acknowledged" in caplog.text
