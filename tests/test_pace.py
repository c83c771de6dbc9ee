"""How fast the machine is: told as a ratio with bounds."""

from __future__ import annotations

import pytest

from tests import pace


@pytest.mark.parametrize(("seconds", "expected"), [(0.5, 1.0), (1.0, 1.0), (1.7, 1.7), (9.0, pace.MOST)])
def test_slowness_is_the_best_of_some_tries_beside_the_ordinary_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: float
) -> None:
    tries = iter([seconds * 2, seconds, seconds * 3] * 9)
    monkeypatch.setattr(pace, "_seconds", lambda: next(tries) * pace.ORDINARY)
    assert pace.slowness() == pytest.approx(expected)


def test_the_work_takes_some_time() -> None:
    assert pace._seconds() > 0
