"""How fast the machine is: told as a ratio with bounds."""

from __future__ import annotations

import gc

import pytest

from tests import pace


@pytest.mark.parametrize(("seconds", "expected"), [(0.5, 1.0), (1.0, 1.0), (1.7, 1.7), (9.0, pace.MOST)])
def test_slowness_is_the_best_of_some_tries_beside_the_ordinary_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: float
) -> None:
    tries = iter([seconds * 2, seconds, seconds * 3] * 9)
    monkeypatch.setattr(pace, "_seconds", lambda: next(tries) * pace.ORDINARY)
    assert pace.slowness() == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "expected"), [(0.5, 1.0), (1.7, 1.7), (9.0, pace.MOST)])
def test_slowness_of_collections_is_the_same_and_looks_through_its_own_objects_alone(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: float
) -> None:
    tries = iter([seconds * 2, seconds, seconds * 3] * 9)
    frozen: list[int] = []

    def measured() -> float:
        frozen.append(gc.get_freeze_count())
        return next(tries) * pace.ORDINARY_COLLECTION

    monkeypatch.setattr(pace, "_seconds_of_collection", measured)
    assert pace.slowness_of_collections() == pytest.approx(expected)
    assert min(frozen) > 1000
    assert gc.get_freeze_count() == 0


def test_the_work_takes_some_time() -> None:
    assert pace._seconds() > 0
    assert pace._seconds_of_collection() > 0
