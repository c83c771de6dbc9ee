"""How many points a test tries in which run."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["by_run"]


def by_run(few: int, by_day: int, by_night: int) -> list[Any]:
    """Parameters of a test: points for the runs with slow tests, for those with `crash`, and for the nightly ones."""
    return [
        few,
        pytest.param(by_day, marks=pytest.mark.crash),
        pytest.param(by_night, marks=(pytest.mark.crash, pytest.mark.nightly)),
    ]
