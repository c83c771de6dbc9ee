"""Wall time that goes with the virtual clock of the loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpy.seams import wall_clock
from tests.broker_sim.broker.timer.timer_kit import EPOCH
from tests.virtual_time import loop_time


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock."""
    with wall_clock(loop_time(EPOCH)):
        yield
