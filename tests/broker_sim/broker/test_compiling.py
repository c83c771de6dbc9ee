"""Expressions that wait to be compiled are bounded, and each that was taken is answered."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.errors import BrokerError
from rocketpy.services import open_services
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.filters.compiling import MOST_WAITING, Compiled, Compiling
from rocketpy_broker_sim.filter.errors import FilterExpressionError


async def test_expressions_wait_up_to_a_bound_and_all_that_were_taken_are_told(autojump_clock: MockClock) -> None:
    compiling, told = Compiling(), dict[str, Compiled]()
    texts = [f"a = {number}" for number in range(MOST_WAITING - 1)] + ["a ="]
    for text in texts:
        compiling.later(text, lambda found, text=text: told.setdefault(text, found))
    with pytest.raises(BrokerError, match=f"{MOST_WAITING} expressions wait") as refused:
        compiling.later("one too many", lambda found: told.setdefault("one too many", found))
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    async with open_services() as services:
        services.start_soon(compiling.serve, lambda connection, request: None, lambda: None)
        await compiling.wait_none()
    assert list(told) == texts
    wrong = [text for text, found in told.items() if isinstance(found, FilterExpressionError)]
    assert wrong == ["a ="]
    compiling.later("b = 1", lambda found: None)
