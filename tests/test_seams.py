"""The seams: clocks that are injected for a time."""

from __future__ import annotations

import time
from contextlib import ExitStack

from rocketpy.seams import wall_clock, wall_ms


def test_the_last_clock_that_was_injected_counts_in_whatever_order_their_blocks_end() -> None:
    first, second = ExitStack(), ExitStack()
    with first, second:
        first.enter_context(wall_clock(lambda: 1))
        assert wall_ms() == 1
        second.enter_context(wall_clock(lambda: 2))
        assert wall_ms() == 2
        first.close()
        assert wall_ms() == 2
        second.close()
        assert abs(wall_ms() - time.time() * 1000) < 60_000
