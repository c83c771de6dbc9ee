"""Every request code at its limits, against servers that run. The quick part is a handful of codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rocketpy_broker_sim.broker.router import routes_of
from tests.broker_sim.broker.kit import broker_and_client
from tests.hostile.codes import run
from tests.hostile.known import KNOWN
from tests.hostile.report import Report
from tests.hostile.routed import NOT_SUPPORTED, Routed, routed
from tests.hostile.world import World

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "hostile-peers.md"
QUICK = {"broker-GET_MAX_OFFSET", "broker-SEND_MESSAGE_V2", "broker-HEART_BEAT", "namesrv-REGISTER_TOPIC_IN_NAMESRV"}
CASES = [
    pytest.param(each, id=str(each), marks=() if str(each) in QUICK else pytest.mark.matrix)
    for each in [*routed(), NOT_SUPPORTED]
]


@pytest.mark.quiet("measures turns, waits and memory of servers")
@pytest.mark.slow
@pytest.mark.parametrize("each", CASES)
def test_a_request_code_at_its_limits(each: Routed, world: World, report: Report) -> None:
    result = run(world, each)
    report.note(result)
    assert not result.unexpected(), "\n".join(result.unexpected())


def test_every_code_stands_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    names = [str(each).partition("-")[2] for each in routed()]
    assert names
    assert not [name for name in names if f"| {name} (" not in page]


async def test_no_code_of_the_broker_is_left_out(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, _):
        assert {int(each.code) for each in routed() if each.role == "broker"} == set(routes_of(broker._views))


def test_what_is_known_to_fail_are_codes_that_exist() -> None:
    assert set(KNOWN) <= {str(each) for each in routed()} | {str(NOT_SUPPORTED)}
