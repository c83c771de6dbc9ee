"""What all connections of a server get of one round of the loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.rounds import LITTLE, ROUND_SECONDS, SLICE_SECONDS, RoundShare
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame
from rocketpy.wire.send_layout import SendReader
from rocketpy.wire.serialize import encode_command
from tests.remoting.helpers import ECHO, SINK, Peer, connect, read_command, running_server

CROWD = 60
EACH = 40
COST = 0.001
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


@pytest.mark.parametrize("where", ["decoding", "handling"])
async def test_a_round_holds_no_more_than_its_share_however_many_send_much(
    memory: MemoryNetwork, clock: MockClock, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with measured() as rounds:
        if where == "decoding":
            read = SendReader.read

            def slow(self: SendReader, frame: Frame) -> RemotingCommand:
                rounds.work()
                return read(self, frame)

            monkeypatch.setattr(SendReader, "read", slow)
        busy = Busy(rounds, COST if where == "handling" else 0.0)
        async with running_server(memory, busy, share=RoundShare(rounds)) as server, trio.open_nursery() as nursery:
            for _ in range(CROWD):
                nursery.start_soon(send_to, await connect(memory, server), LARGE * EACH)
            await wait_all_tasks_blocked()
            assert busy.done == CROWD * EACH
    assert max(rounds.each) <= 2 * ROUND_SECONDS + 3 * SLICE_SECONDS
    # What there is is used: the work is not strewn over many more rounds than it fills.
    assert len([spent for spent in rounds.each if spent]) <= 2 * CROWD * EACH * COST / ROUND_SECONDS


async def test_one_that_asks_for_little_is_served_in_the_round_in_which_it_comes(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    with measured() as rounds:
        async with running_server(memory, Busy(rounds), share=RoundShare(rounds)) as server:
            async with trio.open_nursery() as nursery:
                innocent = await connect(memory, server)
                for _ in range(CROWD):
                    nursery.start_soon(send_to, await connect(memory, server), LARGE * EACH)
                waits = []
                for _ in range(10):
                    await trio.lowlevel.checkpoint()
                    before = len(rounds.each)
                    await innocent.send_all(SMALL)
                    assert (await read_command(innocent)).opaque == 1
                    waits.append(len(rounds.each) - before)
                assert server.share.is_short  # all of that happened while the others waited
    assert max(waits) <= 5  # to be woken, read, be written, and be read here


async def test_small_requests_that_come_at_once_are_carried_out_one_in_each_round_while_time_is_short(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    with measured() as rounds:
        busy = Busy(rounds)
        async with running_server(memory, busy, share=RoundShare(rounds)) as server, trio.open_nursery() as nursery:
            innocent = await connect(memory, server)
            for _ in range(CROWD):
                nursery.start_soon(send_to, await connect(memory, server), LARGE * EACH)
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


async def test_a_share_lets_as_many_go_as_it_has_time_for(clock: MockClock) -> None:
    share = RoundShare()
    went = []

    async def wait(number: int) -> None:
        await share.wait()
        went.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(wait, number)
            await wait_all_tasks_blocked()
        for cost, left in ((SLICE_SECONDS, 20), (1.0, 19), (0.0, 0)):  # one goes in any case
            for _ in range(100):
                share.note_let_go(cost)
            share.renew()
            assert share.is_short is (left > 0)
            await wait_all_tasks_blocked()
            assert sorted(went) == list(range(30 - left))


async def test_a_share_that_is_used_up_is_renewed_in_the_next_round(clock: MockClock) -> None:
    share = RoundShare()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(share.run)
        await wait_all_tasks_blocked()
        found = []
        for _ in range(2):
            share.note(ROUND_SECONDS / 2)
            found.append(share.is_short)
        await wait_all_tasks_blocked()
        assert [*found, share.is_short] == [False, True, False]
        nursery.cancel_scope.cancel()
