"""The table of waiters: bounds, reasons, turns, and the edges that no client reaches on purpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.sysflag import PullSysFlag
from rocketpy_broker_sim.broker.held_requests.long_polling import KEPT_AT_LEAST, HeldPull, held_pull
from rocketpy_broker_sim.broker.held_requests.waiters import SLICE, Bounds, Reason, Waiter, Waiters
from rocketpy_broker_sim.store.filtering import MessageFilter
from rocketpy_broker_sim.store.put_result import Arrival
from tests.broker_sim.broker.kit import pull_fields

BOUNDS = Bounds(number=1000, number_of_connection=500)


class FakeConnection:
    """As much of a connection as waiters need."""

    def __init__(self) -> None:
        self.is_open = True
        self.callbacks: list[Callable[[Any], object]] = []

    def add_close_callback(self, callback: Callable[[Any], object]) -> None:
        self.callbacks.append(callback)

    def close(self) -> None:
        self.is_open = False
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)

    def forget_request(self, request: RemotingCommand) -> None:
        assert request.code == RequestCode.PULL_MESSAGE

    recall_request = forget_request


class Table:
    """Waiters, and what was run again."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.waiters = Waiters(bounds)
        self.again: list[HeldPull] = []
        self.finished = 0
        self.on_run: Callable[[HeldPull], object] = lambda pull: None

    def arrived(self, arrival: Arrival) -> None:
        self.run(self.waiters.arrived(arrival))

    def run(self, waiters: Iterable[Waiter]) -> None:
        for waiter in waiters:
            self.run_again(waiter)

    def run_again(self, waiter: Waiter) -> None:
        if not waiter.connection.is_open:
            return
        assert isinstance(waiter, HeldPull)
        assert not waiter.is_waiting
        self.again.append(waiter)
        self.on_run(waiter)

    def finish(self) -> None:
        self.finished += 1

    def hold(
        self,
        connection: Any,
        queue_id: int = 0,
        *,
        group: str = "g",
        offset: int = 5,
        codes: frozenset[int] | None = None,
        body: bytes = b"",
        seconds: float = 15.0,
        **fields: Any,
    ) -> bool:
        ext = pull_fields("T", queue_id, offset, consumer_group=group, **fields)
        request = RemotingCommand(RequestCode.PULL_MESSAGE, ext, body)
        header = PullMessageRequestHeader.from_ext(ext)
        wanted = None if codes is None else MessageFilter(codes)
        return self.waiters.hold(held_pull(connection, request, header, wanted), seconds)

    @property
    def reasons(self) -> dict[Reason, int]:
        return {reason: count for reason, count in self.waiters.counts.items() if count}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.waiters.serve, self.run_again, self.finish)
            await wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()


def arrival(end: int = 6, *codes: int, queue_id: int = 0) -> Arrival:
    return Arrival("T", queue_id, end, codes or (7,))


# --- reasons ---------------------------------------------------------------------------------------------


async def test_each_answer_has_a_reason_that_is_counted(autojump_clock: MockClock) -> None:
    table, connection = Table(), FakeConnection()
    async with table.served():
        for number, group in enumerate(("arrives", "times out", "gone", "asks again", "asks again", "recalled")):
            seconds, flags = 1.0 if number == 1 else 15.0, PullSysFlag.SUSPEND
            table.hold(connection, min(number, 3), group=group, seconds=seconds, sys_flag=flags)
        table.arrived(arrival())
        table.waiters.queues_gone({"T": 4})
        table.waiters.queues_gone({"T": 2, "U": 0})
        await trio.sleep(2)
        table.hold(connection, group="recalled")
        table.waiters.recall("recalled", "T", {0})
        await wait_all_tasks_blocked()
        table.hold(connection, group="stays")
        other = FakeConnection()
        table.hold(other)
        other.close()
        table.waiters.close()
        assert not table.hold(connection, group="late")
        await table.waiters.wait_none()
    assert table.reasons == {
        Reason.ARRIVED: 1,
        Reason.TIMED_OUT: 1,
        Reason.QUEUE_GONE: 3,
        Reason.REPLACED: 1,
        Reason.RECALLED: 1,
        Reason.CONNECTION_CLOSED: 1,
        Reason.SHUT_DOWN: 2,
    }
    assert len(table.again) == 8
    assert (len(table.waiters), table.waiters.size) == (0, 0)


async def test_a_reset_recalls_the_pulls_of_its_group_in_its_queues_and_no_others(autojump_clock: MockClock) -> None:
    table, connections = Table(), [FakeConnection(), FakeConnection()]
    async with table.served():
        for connection in connections:
            for queue_id in range(3):
                table.hold(connection, queue_id)
                table.hold(connection, queue_id, group="other")
        table.waiters.recall("g", "U", {0, 1})
        table.waiters.recall("g", "T", {0, 1})
        await wait_all_tasks_blocked()
    assert Counter((pull.group, pull.queue_id) for pull in table.again) == {("g", 0): 2, ("g", 1): 2}


async def test_pulls_that_a_program_makes_wait_side_by_side(autojump_clock: MockClock) -> None:
    """Those of consumers that go on by themselves replace each other, for their client has given the older one up."""
    table, connection = Table(), FakeConnection()
    by_program = PullSysFlag.build(suspend=True, subscription=True)
    async with table.served():
        for _ in range(3):
            table.hold(connection, sys_flag=by_program)
        for flags in ({"suspend": True}, {"lite_pull": True}, {"subscription": True, "lite_pull": True}):
            table.hold(connection, group="by itself", sys_flag=PullSysFlag.build(**flags))
        await wait_all_tasks_blocked()
        assert table.reasons == {Reason.REPLACED: 2}
        assert len(table.waiters) == 4
        table.arrived(arrival())
        await table.waiters.wait_none()
    assert table.reasons == {Reason.REPLACED: 2, Reason.ARRIVED: 4}


async def test_who_came_later_and_waits_for_less_long_is_answered_first(autojump_clock: MockClock) -> None:
    table, connection = Table(), FakeConnection()
    async with table.served():
        for queue_id, seconds in enumerate((20, 10)):
            table.hold(connection, queue_id, seconds=seconds)
            await wait_all_tasks_blocked()
        await trio.sleep(10.1)
        assert [pull.queue_id for pull in table.again] == [1]
        await trio.sleep(10)
        assert [pull.queue_id for pull in table.again] == [1, 0]


async def test_an_offset_that_the_queue_will_not_reach_next_is_not_waited_for(autojump_clock: MockClock) -> None:
    table, connection = Table(), FakeConnection()
    table.hold(connection, group="beyond", offset=9)
    table.hold(connection, group="at the end", offset=3)
    table.hold(connection, group="before", offset=2)
    table.arrived(arrival(3))  # the queue was deleted and began again
    assert [pull.group for pull in table.again] == ["beyond", "before"]
    assert table.reasons == {Reason.OFFSET_ILLEGAL: 1, Reason.ARRIVED: 1}


# --- bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 10])
async def test_one_connection_holds_no_more_than_its_bound(autojump_clock: MockClock, bound: int) -> None:
    table, greedy, modest = Table(Bounds(number=100, number_of_connection=bound)), FakeConnection(), FakeConnection()
    assert [table.hold(greedy, n) for n in range(bound + 2)] == [True] * bound + [False] * 2
    assert table.hold(modest)
    assert table.reasons == {Reason.OVER_BOUND: 2}


async def test_one_connection_keeps_no_more_bytes_than_its_bound(autojump_clock: MockClock) -> None:
    table, greedy, modest = Table(), FakeConnection(), FakeConnection()
    assert table.hold(greedy)
    size = table.waiters.size
    table = Table(Bounds(number=100, number_of_connection=100, size_of_connection=3 * size))
    assert [table.hold(greedy, n) for n in range(5)] == [True] * 3 + [False] * 2
    assert table.hold(modest)
    table.arrived(arrival())
    assert [table.hold(greedy, n) for n in (3, 4)] == [True, False]
    assert table.waiters.size == 3 * size


async def test_when_all_places_are_taken_the_newest_of_the_greediest_gives_way(autojump_clock: MockClock) -> None:
    table = Table(Bounds(number=20, number_of_connection=15))
    greedy, second, modest = FakeConnection(), FakeConnection(), FakeConnection()
    async with table.served():
        assert all(table.hold(greedy, n) for n in range(15))
        assert all(table.hold(second, n) for n in range(5))
        assert not table.hold(greedy, 15)
        assert table.hold(modest)
        assert not table.again  # not while a request is being carried out
        await wait_all_tasks_blocked()
        assert [(pull.connection, pull.queue_id) for pull in table.again] == [(greedy, 14)]
        assert all(table.hold(modest, n) for n in range(1, 6))
        await wait_all_tasks_blocked()
        assert all(pull.connection is greedy for pull in table.again)
        assert len(table.waiters) == 20
    held = {
        connection: len(table.waiters._index.held_of(connection).waiters) for connection in (greedy, second, modest)
    }
    assert held == {greedy: 9, second: 5, modest: 6}


async def test_the_greediest_is_known_whatever_comes_and_goes(autojump_clock: MockClock) -> None:
    table = Table(Bounds(number=10**6, number_of_connection=10**6))
    connections = [FakeConnection() for _ in range(5)]
    random = __import__("random").Random(14)
    async with table.served():
        for step in range(2000):
            connection = random.choice(connections)
            if random.random() < 0.6:
                table.hold(connection, random.randrange(40))
            elif random.random() < 0.9:
                table.arrived(arrival(queue_id=random.randrange(40)))
            else:
                connection.close()
                connections[connections.index(connection)] = FakeConnection()
            if step % 20 == 0:
                await wait_all_tasks_blocked()
            index = table.waiters._index
            held = [len(each.waiters) for each in index._connections.values()]
            assert index.most == max(held, default=0)
            assert index.count == sum(held)


async def test_a_held_pull_keeps_no_body_and_counts_what_it_keeps(autojump_clock: MockClock) -> None:
    table, connection = (
        Table(Bounds(number=100, number_of_connection=100, size_of_connection=100_000)),
        FakeConnection(),
    )
    assert table.hold(connection, 0, body=bytes(16 << 20))
    assert KEPT_AT_LEAST < table.waiters.size < 8192
    (waiter,) = table.waiters._index.all()
    assert waiter.request.body == b""
    assert not table.hold(connection, 1, subscription="x" * 100_000)
    assert table.hold(connection, 2)
    assert not table.hold(connection, 3, codes=frozenset(range(1000)))


# --- turns -----------------------------------------------------------------------------------------------


async def test_a_message_that_thousands_wait_for_holds_the_loop_for_a_few_at_a_time(autojump_clock: MockClock) -> None:
    table = Table(Bounds(number=10_000, number_of_connection=10_000))
    big, innocent = FakeConnection(), FakeConnection()
    async with table.served():
        for number in range(3000):
            table.hold(big, 0, group=f"g{number}")
        table.hold(innocent, 1)
        table.arrived(arrival())
        assert len(table.again) == SLICE
        table.arrived(arrival(queue_id=1))  # of another queue: at once, whatever is under way
        assert table.again[-1].connection is innocent
        most, before = 0, len(table.again)
        while len(table.waiters):
            await trio.lowlevel.checkpoint()
            most, before = max(most, len(table.again) - before), len(table.again)
        assert most <= 2 * SLICE
        groups = [pull.group for pull in table.again if pull.connection is big]
        assert groups == [f"g{number}" for number in range(3000)]


async def test_what_arrives_while_many_are_woken_is_not_missed(autojump_clock: MockClock) -> None:
    table = Table(Bounds(number=10_000, number_of_connection=10_000))
    connection = FakeConnection()
    async with table.served():
        for number in range(500):
            table.hold(connection, 0, group=f"g{number}", codes=frozenset({number}), offset=5)
        table.arrived(arrival(6, 1000))
        for end in range(7, 20):
            table.arrived(arrival(end, end))  # wanted by those who have been looked at, and by the others
        await wait_all_tasks_blocked()
        assert sorted(pull.group for pull in table.again) == sorted(f"g{number}" for number in range(7, 20))
        assert not table.waiters._walked


async def test_a_connection_that_breaks_when_one_is_answered_takes_its_others_along(autojump_clock: MockClock) -> None:
    table = Table()
    table.on_run = lambda pull: pull.connection.close()
    connection = FakeConnection()
    for queue_id in range(3):
        table.hold(connection, queue_id, seconds=5)
    table.run(table.waiters.expire(trio.current_time() + 10))
    assert (len(table.waiters), len(table.again)) == (0, 1)
    connection = FakeConnection()
    async with table.served():
        for queue_id in range(3):
            table.hold(connection, queue_id)
        table.waiters.close()
        with trio.fail_after(1):
            await table.waiters.wait_none()
    assert len(table.again) == 2


async def test_a_closed_connection_holds_nothing(autojump_clock: MockClock) -> None:
    table, connection = Table(), FakeConnection()
    connection.close()
    assert not table.hold(connection)
    assert len(table.waiters) == 0
