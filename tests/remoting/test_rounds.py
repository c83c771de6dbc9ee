"""What all connections of a server get of one round of the loop."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.limits import ConnectionLimits, ServerLimits
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.rounds import (
    LITTLE,
    ROUND_SECONDS,
    SLICE_SECONDS,
    WORK_SECONDS,
    RoundShare,
    Slice,
    in_slices,
    thread_clock,
)
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame
from rocketpy.wire.send_layout import SendReader
from rocketpy.wire.serialize import encode_command
from tests.remoting.helpers import ECHO, SINK, Peer, connect, connection_pair, read_command, running_server

CROWD = 60
EACH = 40
COST = 0.001
NOTE = 990
LARGE = encode_command(RemotingCommand(SINK, {"k": "v" * LITTLE}, flag=2))
SMALL = encode_command(RemotingCommand(ECHO, opaque=1))


class Rounds(trio.abc.Instrument):
    """Processor time that passes only where a test says so, and what each round of the loop had of it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.began = 0.0
        self.each: list[float] = []

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float = COST) -> None:
        self.now += seconds

    def before_io_wait(self, timeout: float) -> None:
        self.each.append(self.now - self.began)
        self.began = self.now


@contextmanager
def measured() -> Iterator[Rounds]:
    rounds = Rounds()
    trio.lowlevel.add_instrument(rounds)
    try:
        yield rounds
    finally:
        trio.lowlevel.remove_instrument(rounds)


class Busy(Peer):
    """A peer whose requests take processor time."""

    def __init__(self, rounds: Rounds, cost: float = COST) -> None:
        self.done = 0

        def sink(*_: object) -> None:
            self.done += 1
            rounds.work(cost)

        self.came: list[int] = []

        def small(_: object, request: RemotingCommand) -> RemotingCommand:
            self.came.append(len(rounds.each))
            return request.answer()

        super().__init__({SINK: sink, ECHO: small})


async def send_to(stream: trio.abc.Stream, data: bytes) -> None:
    await stream.send_all(data)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["decoding", "handling"])
async def test_a_round_holds_no_more_than_its_share_however_many_send_much(
    memory: MemoryNetwork, clock: MockClock, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost, each = COST / 10, 10 * EACH
    with measured() as rounds:
        if where == "decoding":
            read = SendReader.read

            def slow(self: SendReader, frame: Frame) -> RemotingCommand:
                rounds.work(cost)
                return read(self, frame)

            monkeypatch.setattr(SendReader, "read", slow)
        busy = Busy(rounds, cost if where == "handling" else 0.0)
        async with running_server(memory, busy, share=RoundShare(rounds)) as server, trio.open_nursery() as nursery:
            for stream in [await connect(memory, server) for _ in range(CROWD)]:
                nursery.start_soon(send_to, stream, LARGE * each)
            await wait_all_tasks_blocked()
            assert busy.done == CROWD * each
    assert max(rounds.each) <= 2 * (ROUND_SECONDS + SLICE_SECONDS + COST)
    # What there is is used: the work is not strewn over many more rounds than it fills.
    assert len([spent for spent in rounds.each if spent]) <= 2 * CROWD * each * cost / ROUND_SECONDS


@pytest.mark.slow
async def test_one_that_asks_for_little_is_served_in_the_round_in_which_it_comes(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    with measured() as rounds:
        async with running_server(memory, Busy(rounds), share=RoundShare(rounds)) as server:
            async with trio.open_nursery() as nursery:
                innocent = await connect(memory, server)
                for _ in range(CROWD):
                    nursery.start_soon(send_to, await connect(memory, server), LARGE * 10 * EACH)
                waits = []
                for _ in range(10):
                    await trio.lowlevel.checkpoint()
                    before = len(rounds.each)
                    await innocent.send_all(SMALL)
                    assert (await read_command(innocent)).opaque == 1
                    waits.append(len(rounds.each) - before)
                assert server.share.is_short  # all of that happened while the others waited
    assert max(waits) <= 5  # to be woken, read, be written, and be read here


@pytest.mark.slow
async def test_small_requests_that_come_at_once_are_carried_out_one_in_each_round_while_time_is_short(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    with measured() as rounds:
        busy = Busy(rounds)
        async with running_server(memory, busy, share=RoundShare(rounds)) as server, trio.open_nursery() as nursery:
            innocent = await connect(memory, server)
            for _ in range(CROWD):
                nursery.start_soon(send_to, await connect(memory, server), LARGE * 10 * EACH)
            while not server.share.is_short:
                await trio.lowlevel.checkpoint()
            await innocent.send_all(SMALL * 10)
            for _ in range(16):
                await trio.lowlevel.checkpoint()
            assert server.share.is_short
            assert busy.came == list(range(busy.came[0], busy.came[0] + 10))


async def test_what_waits_for_its_turn_counts_as_kept_and_goes_with_its_connection(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    with measured() as rounds:
        share = RoundShare(rounds)
        async with running_server(memory, Busy(rounds), share=share) as server:
            streams = [await connect(memory, server) for _ in range(CROWD)]
            async with trio.open_nursery() as nursery:
                for stream in streams:
                    nursery.start_soon(send_to, stream, LARGE * EACH)
                while not share.is_short:
                    await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
                assert server.budget.kept > CROWD / 2 * len(LARGE)
                server.close()
                nursery.cancel_scope.cancel()
            await wait_all_tasks_blocked()
            assert not server.budget.kept


async def test_a_share_calls_up_as_many_as_it_has_time_for(clock: MockClock) -> None:
    """More and more while their turns are short, few as soon as they are long; one in any case."""
    went: list[int] = []
    cost = 0.0

    async def wait(number: int) -> None:
        await share.wait()
        went.append(number)
        time.work(cost)
        share.note()

    time = Rounds()
    share = RoundShare(time)
    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(wait, number)
            await wait_all_tasks_blocked()
        steps = (0.0, 59), (0.0, 56), (0.5, 54), (1.0, 53), (50.0, 52), (0.0, 49), (0.0, 42), (0.0, 27)
        for rounds, left in steps:
            cost = rounds * ROUND_SECONDS
            share.renew()
            await wait_all_tasks_blocked()
            assert len(went) == 60 - left
            assert share.is_short
        for _ in range(2):
            share.renew()
            await wait_all_tasks_blocked()
        assert sorted(went) == list(range(60))
        assert not share.is_short


async def test_those_who_were_called_up_too_early_come_before_the_others(clock: MockClock) -> None:
    went: list[int] = []

    async def wait(number: int) -> None:
        await share.wait()
        went.append(number)
        time.work(2 * ROUND_SECONDS)
        share.note()

    time = Rounds()
    share = RoundShare(time)
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(wait, number)
            await wait_all_tasks_blocked()
        for called in (1, 4, 4, 4, 7, 7, 7, 10):  # three at a time while one finds time, when nobody is late
            share.renew()
            await wait_all_tasks_blocked()
            assert max(went) < called
        assert len(went) == 8
        nursery.cancel_scope.cancel()


async def test_one_who_was_called_up_too_late_goes_on_though_nobody_notes_a_turn(clock: MockClock) -> None:
    """The time may have gone to other tasks of the loop, or to a turn that ended with its connection."""
    went: list[int] = []

    async def wait(number: int) -> None:
        await share.wait()
        went.append(number)
        time.work(ROUND_SECONDS)

    time = Rounds()
    share = RoundShare(time)
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(wait, number)
            await wait_all_tasks_blocked()
        for called in (1, 2):  # one, and then the other two together: the second of them is late
            share.renew()
            await wait_all_tasks_blocked()
            assert len(went) == called
        nursery.start_soon(share.run)
        await trio.sleep(1000)
        assert sorted(went) == [0, 1, 2]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(40))
async def test_nobody_is_forgotten_in_the_line(clock: MockClock, seed: int) -> None:
    """Waiters come, go and are cancelled in any order, in rounds that are short or not, with turns of any length."""
    source = random.Random(seed)
    time = Rounds()
    share = RoundShare(time)
    waiting = 0

    async def take_turns(scope: trio.CancelScope) -> None:
        nonlocal waiting
        with scope:
            for _ in range(source.randrange(1, 12)):
                if source.random() < 0.2:
                    await trio.sleep(source.choice([0, 0.001, 5]))
                if share.is_short or source.random() < 0.1:
                    waiting += 1
                    try:
                        await share.wait()
                    finally:
                        waiting -= 1
                time.work(source.choice([0, 0.0001, SLICE_SECONDS, ROUND_SECONDS, 3 * ROUND_SECONDS]))
                share.note()
                if source.random() < 0.5:
                    await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(share.run)
        scopes = [trio.CancelScope() for _ in range(source.randrange(1, 60))]
        for scope in scopes:
            nursery.start_soon(take_turns, scope)
            if source.random() < 0.3:
                await trio.lowlevel.checkpoint()
            if source.random() < 0.1:
                source.choice(scopes).cancel()
        await trio.sleep(1000)  # the clock jumps only where nobody can go on
        assert waiting == 0
        assert not share.is_short
        assert not share._line
        assert not share._late
        nursery.cancel_scope.cancel()


async def test_a_share_that_is_used_up_is_renewed_in_the_next_round(clock: MockClock) -> None:
    time = Rounds()
    share = RoundShare(time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(share.run)
        await wait_all_tasks_blocked()
        found = []
        for _ in range(2):
            time.work(ROUND_SECONDS / 2)
            share.note()
            found.append(share.is_short)
        await wait_all_tasks_blocked()
        assert [*found, share.is_short] == [False, True, False]
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_what_is_read_little_by_little_is_served_beside_a_crowd(memory: MemoryNetwork, clock: MockClock) -> None:
    """A connection that trickles is not starved, and what waits in the line keeps its order."""
    came: list[int] = []
    with measured() as rounds:
        busy = Busy(rounds)

        def note(_: object, request: RemotingCommand) -> None:
            came.append(request.opaque)

        busy.dispatcher.processors[NOTE] = note
        async with running_server(memory, busy, share=RoundShare(rounds)) as server, trio.open_nursery() as nursery:
            slow = await connect(memory, server)
            for stream in [await connect(memory, server) for _ in range(CROWD)]:
                nursery.start_soon(send_to, stream, LARGE * 10 * EACH)
            while not server.share.is_short:
                await trio.lowlevel.checkpoint()
            data = b"".join(
                encode_command(RemotingCommand(NOTE, {"k": "v" * LITTLE}, opaque=number, flag=2))
                for number in range(20)
            )
            for at in range(0, len(data), 1500):
                await slow.send_all(data[at : at + 1500])
                await trio.lowlevel.checkpoint()
            while len(came) < 20:
                assert server.share.is_short, "the crowd was done first"
                await trio.lowlevel.checkpoint()
            assert came == list(range(20))
            nursery.cancel_scope.cancel()
            server.close()


async def test_a_frame_is_not_late_while_its_connection_waits_for_its_turn(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    """The share is used up for a minute; the frame has thirty seconds, and goes on with what was left of them."""

    class ByHand(RoundShare):
        async def run(self) -> None:
            await trio.sleep_forever()

    time = Rounds()
    share = ByHand(time)
    limits = ServerLimits(connection=ConnectionLimits(frame_timeout=30))
    peer = Busy(Rounds())
    async with running_server(memory, peer, share=share, limits=limits) as server:
        stream = await connect(memory, server)
        await stream.send_all(LARGE[:-2])  # much, and not whole
        await trio.sleep(20)
        time.work(ROUND_SECONDS)
        share.note()
        await stream.send_all(LARGE[-2:-1])
        await trio.sleep(60)
        share.renew()
        await trio.sleep(8)
        assert len(server.connections) == 1
        await stream.send_all(LARGE[-1:])
        await trio.sleep(1)
        assert peer.done == 1
        await stream.send_all(LARGE[:-1])
        await trio.sleep(31)
        assert not server.connections


async def send_until_cut(stream: trio.abc.Stream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError):
        await stream.send_all(data)


async def test_a_stop_does_not_wait_for_those_in_the_line(memory: MemoryNetwork, clock: MockClock) -> None:
    with measured() as rounds:
        share = RoundShare(rounds)
        async with running_server(memory, Busy(rounds), share=share) as server, trio.open_nursery() as nursery:
            for stream in [await connect(memory, server) for _ in range(CROWD)]:
                nursery.start_soon(send_until_cut, stream, LARGE * 10 * EACH)
            while not share.is_short:
                await trio.lowlevel.checkpoint()
            began = trio.current_time()
            await server.stop(5)
            assert trio.current_time() - began < 1
            assert not server.connections
            assert not server.budget.kept
            nursery.cancel_scope.cancel()


# --- a client, which shares no rounds ------------------------------------------------------------------


async def test_a_client_carries_out_what_a_turn_has_time_for_and_then_lets_others_go(
    memory: MemoryNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    with measured() as rounds:
        monkeypatch.setattr("rocketpy.remoting.rounds.clock_here", lambda: rounds)
        busy = Busy(rounds)
        async with connection_pair(memory, client=busy) as (ours, theirs):
            for _ in range(EACH):
                theirs.send_oneway(RemotingCommand.oneway(SINK))
            while busy.done < EACH:
                await trio.lowlevel.checkpoint()
            assert ours.is_open
        assert max(rounds.each) <= SLICE_SECONDS + RequestDispatcher.LOOK_AFTER * COST


async def test_a_client_decodes_no_more_at_a_time_than_a_turn_has_time_for(
    memory: MemoryNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding headers may take long, even for requests that are refused."""
    read = SendReader.read
    with measured() as rounds:
        monkeypatch.setattr("rocketpy.remoting.rounds.clock_here", lambda: rounds)

        def slow(self: SendReader, frame: Frame) -> RemotingCommand:
            rounds.work(SLICE_SECONDS)
            return read(self, frame)

        monkeypatch.setattr(SendReader, "read", slow)
        busy = Busy(rounds, 0.0)
        async with connection_pair(memory, client=busy) as (_, theirs):
            large = {"k": "v" * 40_000}
            for _ in range(8):
                theirs.send_oneway(RemotingCommand.oneway(SINK, large))
            while busy.done < 8:
                await trio.lowlevel.checkpoint()
        assert max(rounds.each) <= 2 * SLICE_SECONDS


async def test_a_slice_ends_and_another_one_begins() -> None:
    now = 0.0
    turn = Slice(lambda: now)
    assert turn.has_time()
    now += SLICE_SECONDS / 2
    assert turn.has_time()
    assert not turn.has_time_to_decode()
    now += SLICE_SECONDS / 2
    assert not turn.has_time()
    turn.end()
    assert turn.has_time()


async def test_work_in_slices_gives_the_loop_back_and_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    with measured() as rounds:
        monkeypatch.setattr("rocketpy.remoting.rounds.clock_here", lambda: rounds)

        def steps() -> Iterator[None]:
            for _ in range(100):
                rounds.work(WORK_SECONDS / 4)
                yield
            return "done"  # type: ignore[return-value]

        assert await in_slices(steps()) == "done"  # type: ignore[arg-type]
        assert max(rounds.each) <= WORK_SECONDS * 1.25


def test_the_clock_of_a_thread_asks_the_system_seldom_and_is_hardly_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, worked, asked = [5.0], [1.0], [0]

    def thread_time() -> float:
        asked[0] += 1
        return worked[0]

    own = SimpleNamespace(perf_counter=lambda: wall[0], thread_time=thread_time)
    monkeypatch.setattr("rocketpy.remoting.rounds.time", own)
    clock, known = thread_clock(), 0.0
    for number in range(10_000):
        wall[0] += 0.000_05
        worked[0] += 0.000_05 * (number % 3 != 0)  # for a third of the time it waits
        assert known <= (known := clock())
        assert 0 <= known - worked[0] <= 0.000_25
    assert asked[0] <= 10_000 // 5 + 1
    wall[0] += 60.0  # of sleep
    assert clock() - worked[0] <= 0.000_25
