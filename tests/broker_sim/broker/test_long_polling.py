"""What holds pulls: the edges that no client reaches on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from trio.testing import MockClock

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.long_polling import HeldPull, HeldPulls


class FakeConnection:
    """As much of a connection as held pulls need."""

    def __init__(self) -> None:
        self.is_open = True
        self.callbacks: list[Callable[[Any], object]] = []

    def add_close_callback(self, callback: Callable[[Any], object]) -> None:
        if self.is_open:
            self.callbacks.append(callback)
        else:
            callback(self)

    def close(self) -> None:
        self.is_open = False
        for callback in self.callbacks:
            callback(self)

    def forget_request(self, request: RemotingCommand) -> None:
        assert request.code == RequestCode.PULL_MESSAGE

    recall_request = forget_request


def held(connection: Any, queue_id: int = 0) -> HeldPull:
    return HeldPull(connection, RemotingCommand(RequestCode.PULL_MESSAGE), "g", "T", queue_id, 0, None)


async def test_a_connection_that_breaks_when_an_older_pull_is_answered_holds_no_newer_one(
    autojump_clock: MockClock,
) -> None:
    connection = FakeConnection()
    pulls = HeldPulls(lambda pull: connection.close(), capacity=10)
    assert pulls.hold(held(connection), 5)
    assert not pulls.hold(held(connection), 5)
    assert len(pulls) == 0
    pulls.expire(trio.current_time() + 10)


async def test_a_connection_that_breaks_when_its_time_is_up_takes_its_other_pulls_along(
    autojump_clock: MockClock,
) -> None:
    answered: list[HeldPull] = []

    def answer(pull: HeldPull) -> None:
        answered.append(pull)
        pull.connection.close()

    def fill() -> HeldPulls:
        connection, pulls = FakeConnection(), HeldPulls(answer, capacity=10)
        for queue_id in range(3):
            assert pulls.hold(held(connection, queue_id), 5)
        return pulls

    pulls = fill()
    pulls.expire(trio.current_time() + 10)
    assert len(pulls) == 0
    pulls = fill()
    pulls.close()
    assert len(pulls) == 0
    assert answered
