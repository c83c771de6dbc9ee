"""Single cases of the ways in. Each runs in a process of its own, which a hang cannot outlive."""

from __future__ import annotations

import pytest

CASES = (
    "chain_of_callbacks",
    "fan_out",
    "listener_that_sends",
    "close_in_a_signal_during_start",
    "send_soon_in_the_portal_without_room",
    "finaliser_in_the_middle_of_send_soon",
    "threads_of_the_process",
)
SLOW = ("keyed_soon_after_a_restart",)
BOUNDS = {"fan_out": 90}
"""Seconds for a case that has much to do, and may wait long for it; 30 for the others."""
LATER = (
    "looking_while_the_portal_is_busy",
    "keyed_soon_during_a_restart",
    "keyed_on_asyncio_after_a_restart",
)


@pytest.mark.parametrize(
    "case",
    [
        *CASES,
        *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW),
        *(pytest.param(case, marks=pytest.mark.matrix) for case in LATER),
    ],
)
def test_case(case, running_worker):
    running_worker.run(f"tests.matrix.cases:{case}", bound=BOUNDS.get(case, 30))


@pytest.mark.parametrize("known", [True, False], ids=["topic known", "topic new"])
@pytest.mark.parametrize("case", ["keyed_soon_from_cold", "keyed_on_asyncio_from_cold"])
def test_keyed_sends_keep_their_order_from_cold(case, known, running_worker):
    running_worker.run(f"tests.matrix.cases:{case}", known)
