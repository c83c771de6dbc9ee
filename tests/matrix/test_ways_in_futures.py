"""The futures of `send_soon` behave as those of concurrent.futures do, and no failure of one vanishes."""

from __future__ import annotations

import pytest

CASES = (
    "wait_and_as_completed",
    "wait_from_many_threads",
    "wrapped_for_asyncio",
    "result_with_a_timeout",
    "cancel_is_refused",
    "callbacks",
    "callbacks_of_failed_ones",
    "closing_waits_for_callbacks",
    "no_cycles",
    "nobody_looks_before_the_end",
)
LATER = ("nobody_looks", "kept_and_looked_at_later")


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(case, marks=pytest.mark.matrix) for case in LATER)])
def test_futures(case, running_worker):
    running_worker.run(f"tests.matrix.futures:{case}")
