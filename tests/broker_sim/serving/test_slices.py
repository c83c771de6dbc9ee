"""Work in slices: what is done at once, who has the turn, and what becomes of work whose connection closes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import BrokerError
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.lane import Lane
from rocketpy_broker_sim.broker.lanes import Lanes, Route
from rocketpy_broker_sim.serving.slices import (
    MOST_SECONDS,
    MUST_END,
    PAUSE,
    SLICE_SECONDS,
    Slices,
    in_slices,
    is_sliced,
)
from tests.broker_sim.broker.test_lanes import Peer, Store, requests, turn_of
from tests.garbage import garbage
from tests.remoting.helpers import connection_pair

LONG, QUICK, OTHER = 1, 2, 3
STEP = 0.001


class Clock:
    """Processor time that only goes on when a step says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """A sliced processor that takes notes: the name of the work at each of its steps, a millisecond each."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.slices = Slices(self.clock)
        self.notes: list[str] = []
        self.closed: list[str] = []

    def steps(self, name: str, count: int, *, must_end: bool = False) -> Generator[bool | None, None, None]:
        try:
            for _ in range(count):
                self.notes.append(name)
                self.clock.now += STEP
                yield MUST_END if must_end else None
        finally:
            self.closed.append(name)

    def processor(self, count: int, *, must_end: bool = False) -> Callable[..., object]:
        def process(connection: Peer, request: RemotingCommand) -> Generator[bool | None, None, RemotingCommand | None]:
            yield from self.steps(f"{request.code}/{request.opaque}", count, must_end=must_end)
            return request.answer()

        return process


def test_a_generator_function_is_a_sliced_processor() -> None:
    worker = Worker()
    assert is_sliced(worker.processor(1))
    assert not is_sliced(lambda connection, request: None)


@pytest.mark.parametrize(("before", "turns"), [(STEP, 2), (STEP / 10, 1)])
async def test_a_long_step_gets_a_turn_for_itself_unless_next_to_nothing_came_before(
    autojump_clock: MockClock, before: float, turns: int
) -> None:
    clock = Clock()
    slices = Slices(clock)
    seen: list[int] = []
    turn = 0

    def work() -> Generator[object, None, None]:
        seen.append(turn)
        clock.now += before
        yield PAUSE
        seen.append(turn)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slices.serve)
        slices.begin(work(), None, lambda *_: None)
        turn = 1
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert seen == [0, turns - 1]


async def test_a_slice_ends_when_its_steps_wait_for_the_disk(autojump_clock: MockClock) -> None:
    """They take next to no processor time, and hold up the others all the same."""
    slices = Slices(Clock())
    notes: list[str] = []

    def steps(name: str, count: int) -> Generator[None, None, None]:
        for _ in range(count):
            notes.append(name)
            autojump_clock.jump(MOST_SECONDS / 4)
            yield

    slices.begin(steps("first", 5), None, lambda *_: None)
    assert notes == ["first"] * 4
    slices.spawn(steps("second", 5), "it")
    slices.take_turn()
    assert notes == ["first"] * 5 + ["second"] * 3
    slices.take_turn()
    assert notes[8:] == ["second"] * 2
    assert not len(slices)
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        turns: list[float] = []

        async def beside() -> None:
            while len(notes) < 30:
                turns.append(trio.current_time())
                await trio.lowlevel.checkpoint()

        nursery.start_soon(beside)
        await in_slices(steps("third", 20))
    assert trio.current_time() == pytest.approx(before + 20 * MOST_SECONDS / 4)
    assert all(later - earlier <= 2.1 * MOST_SECONDS for earlier, later in itertools.pairwise(turns))


async def test_short_work_ends_at_once(autojump_clock: MockClock) -> None:
    worker = Worker()
    ends: list[object] = []
    worker.slices.begin(worker.steps("a", 3), None, lambda *end: ends.append(end))
    assert ends == [(None, None)]
    assert len(worker.slices) == 0


async def test_long_work_takes_a_slice_a_turn_and_works_take_turns(autojump_clock: MockClock) -> None:
    worker = Worker()
    ends: list[str] = []
    for name in "ab":
        worker.slices.begin(worker.steps(name, 12), None, lambda *_, name=name: ends.append(name))
    a_slice = round(SLICE_SECONDS / STEP)
    assert "".join(worker.notes) == "a" * a_slice  # the second finds no time left in this turn
    worker.slices.take_turn()
    assert "".join(worker.notes) == "a" * 2 * a_slice
    while len(worker.slices):
        before = worker.clock.now
        worker.slices.take_turn()
        assert worker.clock.now - before <= SLICE_SECONDS + STEP
    assert worker.notes.count("a") == worker.notes.count("b") == 12
    assert ends == ["a", "b"]
    assert worker.notes[-1] == "b"


async def test_what_work_raises_is_told(autojump_clock: MockClock) -> None:
    def broken() -> Generator[None, None, None]:
        yield
        raise ZeroDivisionError

    ends: list[object] = []
    Slices(Clock()).begin(broken(), None, lambda answer, error: ends.append(type(error)))
    assert ends == [ZeroDivisionError]


async def test_what_has_failed_leaves_no_frames_of_code_behind(autojump_clock: MockClock) -> None:
    """They would hold the request and its body, up to 16 MiB, until the next collection of garbage."""

    def broken() -> Generator[None, None, None]:
        yield
        raise ValueError("broken")

    told: list[str] = []
    with garbage() as found:
        Slices(Clock()).begin(broken(), None, lambda answer, error: told.append(str(error)))
        assert found("frame", "traceback", "ValueError") == 0
    assert told == ["broken"]


@pytest.mark.parametrize("must_end", [False, True])
async def test_work_of_a_closed_connection_is_dropped_unless_it_must_end(
    autojump_clock: MockClock, must_end: bool
) -> None:
    worker, peer = Worker(), Peer()
    ends: list[object] = []
    worker.slices.begin(worker.steps("a", 20, must_end=must_end), peer, lambda *end: ends.append(end))
    peer.is_open = False
    for _ in range(5):
        worker.slices.take_turn()
    assert len(worker.notes) == (20 if must_end else 5)
    assert worker.closed == ["a"]
    assert ends == [(None, None)]


async def test_work_is_closed_when_its_server_ends(autojump_clock: MockClock) -> None:
    worker = Worker()
    worker.slices.begin(worker.steps("a", 1000), None, lambda *_: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.slices.serve)
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert worker.closed == ["a"]
    assert len(worker.notes) < 1000


# --- on a connection of a RequestDispatcher -------------------------------------------------------------------


async def test_requests_behind_sliced_work_of_their_connection_wait_for_it(autojump_clock: MockClock) -> None:
    worker = Worker()

    def quick(connection: object, request: RemotingCommand) -> RemotingCommand:
        worker.notes.append("quick")
        return request.answer()

    dispatcher = RequestDispatcher({LONG: worker.slices.sliced(worker.processor(40)), QUICK: quick})
    async with connection_pair(MemoryNetwork(), dispatcher) as (client, _), trio.open_nursery() as nursery:
        nursery.start_soon(worker.slices.serve)
        answers: list[int] = []

        async def ask(code: int) -> None:
            await client.request(RemotingCommand(code), timeout=10)
            answers.append(code)

        for code in (LONG, QUICK, LONG):
            nursery.start_soon(ask, code)
            await trio.lowlevel.checkpoint()  # tasks that begin together run in any order
        await wait_all_tasks_blocked()
        assert sorted(answers) == [LONG, LONG, QUICK]
        assert worker.notes.index("quick") == 40
        assert len(worker.notes) == 81
        nursery.cancel_scope.cancel()


async def test_an_error_in_sliced_work_is_its_answer(autojump_clock: MockClock) -> None:
    worker = Worker()

    def broken(connection: object, request: RemotingCommand) -> Generator[None, None, RemotingCommand]:
        yield from worker.steps("a", 30)
        raise BrokerError.for_code(ResponseCode.INVALID_PARAMETER, "not like this")

    async with (
        connection_pair(MemoryNetwork(), RequestDispatcher({LONG: worker.slices.sliced(broken)})) as (client, _),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(worker.slices.serve)
        assert (await client.request(RemotingCommand(LONG), timeout=10)).remark == "not like this"
        nursery.cancel_scope.cancel()


# --- in lanes ------------------------------------------------------------------------------------------


def lanes_with(worker: Worker, long: Callable[..., object] | None = None) -> Lanes:
    def quick(connection: Peer, request: RemotingCommand) -> RemotingCommand:
        worker.notes.append(f"{request.code}/{request.opaque}")
        return request.answer()

    lanes = [
        Lane(name="first", threads=1, capacity=100, order="both"),
        Lane(name="second", threads=1, capacity=100, order="both"),
        Lane(name="other", threads=1, capacity=5),
    ]
    routes = {
        LONG: Route(long or worker.processor(20), "first"),
        QUICK: Route(quick, "second"),
        OTHER: Route(quick, "other"),
    }
    return Lanes(lanes, routes, routes[OTHER], turn_of(Store()), worker.slices)


def turns(lanes: Lanes, count: int = 40) -> None:
    for _ in range(count):
        lanes.slices.take_turn()
        lanes.take_turn()


async def test_sliced_work_holds_up_its_connection_in_its_order_alone(autojump_clock: MockClock) -> None:
    worker = Worker()
    lanes = lanes_with(worker)
    busy, free = Peer(), Peer()
    lanes.handle(busy, requests(LONG) + requests(QUICK, 2) + requests(OTHER), trio.current_time())
    assert busy.answers == [(OTHER, 0)]
    lanes.handle(free, requests(QUICK) + requests(OTHER), trio.current_time())
    assert free.answers == [(QUICK, 0), (OTHER, 0)]
    lanes.handle(busy, requests(OTHER), trio.current_time())
    turns(lanes)
    assert busy.answers == [(OTHER, 0), (OTHER, 0), (LONG, 0), (QUICK, 0), (QUICK, 0)]
    assert not lanes._lines
    assert all(lane.waiting == 0 for lane in lanes.statistics().values())


async def test_what_stands_behind_sliced_work_counts_as_waiting(autojump_clock: MockClock) -> None:
    worker = Worker()
    lanes = lanes_with(worker)
    peer = Peer()
    lanes.handle(peer, requests(LONG), trio.current_time())
    lanes.handle(peer, requests(QUICK, 120), trio.current_time())
    assert lanes.statistics()["second"].waiting == 100
    assert peer.answers.count((QUICK, ResponseCode.SYSTEM_BUSY)) == 20
    turns(lanes)
    assert peer.answers.count((QUICK, 0)) == 100


async def test_what_waits_of_several_connections_takes_turns(autojump_clock: MockClock) -> None:
    worker = Worker()
    lanes = lanes_with(worker)
    greedy, modest = Peer(), Peer()
    lanes._lanes["second"].used = lanes._lanes["second"].budget
    lanes.handle(greedy, requests(QUICK, 50), trio.current_time())
    lanes.handle(modest, requests(QUICK, 2), trio.current_time())
    before = len(worker.notes)
    lanes.take_turn()
    assert worker.notes[before : before + 4] == ["2/0", "2/0", "2/1", "2/1"]
    assert len(modest.answers) == 2


async def test_two_lanes_of_one_order_keep_it_when_both_wait(autojump_clock: MockClock) -> None:
    worker = Worker()
    lanes = lanes_with(worker, worker.processor(1))
    peer = Peer()
    lanes._lanes["first"].used = lanes._lanes["first"].budget
    for n in range(3):
        command = RemotingCommand(LONG if n != 1 else QUICK, opaque=n)
        lanes.handle(peer, [command], trio.current_time())
    assert worker.notes == []
    turns(lanes, 3)
    assert worker.notes == ["1/0", "2/1", "1/2"]
    assert peer.answers == [(LONG, 0), (QUICK, 0), (LONG, 0)]


async def test_sliced_requests_of_a_closed_connection_are_not_begun_and_others_are(autojump_clock: MockClock) -> None:
    worker = Worker()
    lanes = lanes_with(worker, worker.processor(1))
    peer = Peer()
    for lane in lanes._lanes.values():
        lane.used = lane.budget
    lanes.handle(peer, requests(LONG, 3) + requests(QUICK, 3), trio.current_time())
    peer.is_open = False
    turns(lanes, 3)
    assert worker.notes == ["2/0", "2/1", "2/2"]
    assert not lanes._lines


async def test_a_turn_of_waiting_requests_ends_with_its_time(autojump_clock: MockClock) -> None:
    worker = Worker()

    def heavy(connection: Peer, request: RemotingCommand) -> RemotingCommand:
        worker.clock.now += 2 * STEP
        return request.answer()

    lanes = lanes_with(worker)
    lanes.replace(QUICK, lambda _: heavy)
    lanes._lanes["second"].used = lanes._lanes["second"].budget
    peer = Peer()
    lanes.handle(peer, requests(QUICK, 20), trio.current_time())
    before = worker.clock.now
    lanes.take_turn()
    assert worker.clock.now - before <= SLICE_SECONDS + 2 * STEP
    assert 0 < len(peer.answers) < 20
