"""What peers make a broker keep stays within its budget, others are served, and nothing is left counted afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.limits import ServerLimits
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.filters.compiling import Compiling
from rocketpy_broker_sim.broker.lane import Lane
from rocketpy_broker_sim.broker.lanes import Lanes, Route
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.serving.memory import ANSWERS, HELD_PULLS, MEMBERSHIP, WAITING_REQUESTS, WORK, MemoryBudget
from rocketpy_broker_sim.serving.slices import Slices, Steadily, Steps
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, client_of, heartbeat, pull_fields, send_fields, settings
from tests.broker_sim.broker.test_lanes import Peer, Store, turn_of

KIB = 1024
SEND = 310


class Closable(Peer):
    """A connection that can be closed."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.address = f"10.0.0.{port}:{port}"
        self.is_open = True
        self.why = ""

    def close(self, error: Exception) -> None:
        self.is_open = False
        self.why = str(error)


def lanes_with(memory: MemoryBudget) -> tuple[Lanes, list[RemotingCommand]]:
    done: list[RemotingCommand] = []

    def process(connection: Peer, request: RemotingCommand) -> RemotingCommand:
        done.append(request)
        return request.answer()

    lanes = [Lane(name="heartbeat", threads=1, capacity=100), Lane(name="send", threads=1, capacity=10_000)]
    route = Route(process, "send")
    made = Lanes(lanes, {SEND: route}, route, turn_of(Store()), memory=memory)
    made._lanes["send"].used = made._lanes["send"].budget
    return made, done


def sends(count: int, size: int = 10 * KIB) -> list[RemotingCommand]:
    return [RemotingCommand(SEND, {}, bytes(size), opaque=n) for n in range(count)]


async def test_requests_that_wait_in_a_lane_are_refused_above_the_budget(autojump_clock: MockClock) -> None:
    memory = MemoryBudget(120 * KIB)
    lanes, done = lanes_with(memory)
    peer = Closable(1)
    for request in sends(40):
        lanes.handle(peer, [request], trio.current_time())
    assert peer.answers == [(SEND, ResponseCode.SYSTEM_BUSY)] * 30
    assert "slow down" in (peer.remarks[0] or "")
    assert memory.kinds() == {WAITING_REQUESTS: 10 * 11 * KIB}
    lanes.take_turn()
    assert (len(done), memory.kept) == (10, 0)


async def test_the_greediest_gives_way_with_all_that_waits_for_it(autojump_clock: MockClock) -> None:
    memory = MemoryBudget(120 * KIB)
    lanes, done = lanes_with(memory)
    greedy, modest = Closable(1), Closable(2)
    for request in sends(10):
        lanes.handle(greedy, [request], trio.current_time())
    lanes.handle(modest, sends(2), trio.current_time())
    assert not greedy.is_open
    assert "10.0.0.1" not in {connection.address for connection, _ in lanes._lines}
    assert memory.kinds() == {WAITING_REQUESTS: 2 * 11 * KIB}
    assert lanes.statistics()["send"].waiting == 2
    lanes.take_turn()
    assert (modest.answers, len(done), memory.kept, lanes._lines) == ([(SEND, 0)] * 2, 2, 0, {})


async def test_who_gives_way_while_it_waits_for_its_peer_to_read_leaves_nothing(autojump_clock: MockClock) -> None:
    memory = MemoryBudget(120 * KIB)
    lanes, _ = lanes_with(memory)
    deaf, modest = Closable(1), Closable(2)
    for request in sends(10):
        lanes.handle(deaf, [request], trio.current_time())
    deaf.readable = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lanes.serve)
        await wait_all_tasks_blocked()
        lanes._lanes["send"].used = lanes._lanes["send"].budget
        lanes.handle(modest, sends(2), trio.current_time())
        assert not deaf.is_open
        deaf.readable.set()
        await wait_all_tasks_blocked()
        assert (modest.answers, memory.kept, lanes._lines, lanes._standing) == ([(SEND, 0)] * 2, 0, {}, 0)
        nursery.cancel_scope.cancel()


# --- the broker ----------------------------------------------------------------------------------------


@asynccontextmanager
async def small_broker(most: int, **changes: object) -> AsyncIterator[tuple[Broker, MemoryNetwork]]:
    """A broker that may keep so many bytes; nothing is counted any more when it has nothing to do."""
    network = MemoryNetwork()
    limits = ServerLimits(max_kept=most)
    async with open_broker(settings(**changes), network=network, storage=MemoryStorage(), limits=limits) as broker:
        yield broker, network
        await wait_all_tasks_blocked()
        assert (broker.memory.kept, broker.memory.kinds()) == (0, {})


async def turns_of_the_loop() -> None:
    """For what comes in to be taken: a lane that stands still keeps the loop going."""
    for _ in range(10):
        await trio.lowlevel.checkpoint()


async def test_a_flood_of_one_way_sends_stays_within_the_budget(autojump_clock: MockClock) -> None:
    most = 2 * KIB * KIB
    async with small_broker(most) as (broker, network):
        async with client_of(network, broker.address) as greedy, client_of(network, broker.address) as modest:
            await modest.send("T")
            lane = broker.lanes._lanes["send"]
            budget, lane.budget = lane.budget, 0
            for _ in range(100):
                greedy.connection.send_oneway(RemotingCommand(310, send_fields("T"), bytes(64 * KIB)))
                await turns_of_the_loop()
                assert broker.memory.kept <= most
            assert 25 <= lane.waiting <= 32
            assert lane.overloaded >= 60
            answer = await modest.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
            assert answer.code == ResponseCode.SUCCESS
            async with trio.open_nursery() as nursery:
                nursery.start_soon(modest.send, "T")
                await turns_of_the_loop()
                lane.budget = budget
            assert broker.memory.kept == 0


@pytest.mark.slow
async def test_two_hundred_peers_that_hold_pulls_stay_within_the_budget(autojump_clock: MockClock) -> None:
    most = KIB * KIB
    async with small_broker(most) as (broker, network), AsyncExitStack() as stack:
        modest, *peers = [await stack.enter_async_context(client_of(network, broker.address)) for _ in range(201)]
        await modest.send("T")
        for number in range(len(peers)):
            broker.groups.find(f"g{number}")  # a table that grows would have pulls give way to it
        found: list[RemotingCommand] = []
        async with trio.open_nursery() as nursery:

            async def pull() -> None:
                found.append(await modest.pull("T", 0, 1, sys_flag=SUBSCRIPTION | SUSPEND))

            nursery.start_soon(pull)
            await wait_all_tasks_blocked()
            for number, peer in enumerate(peers):
                fields = pull_fields("T", 0, 1, sys_flag=SUBSCRIPTION | SUSPEND, consumer_group=f"g{number}")
                fields["more"] = "x" * 20 * KIB
                nursery.start_soon(peer.ask, RequestCode.PULL_MESSAGE, fields, bytes(20 * KIB))
                await wait_all_tasks_blocked()
                assert broker.memory.kept <= most
            assert broker.memory.kinds().keys() == {HELD_PULLS}
            assert 40 < len(broker.pulls.waiters) < 60
            await modest.send("T")
        assert found[0].code == ResponseCode.SUCCESS


class Waiting:
    """Keeps expressions from being compiled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over = trio.Event()
        compile_now = Compiling._compile

        async def compile_later(compiling: Compiling, text: str) -> object:
            await self.over.wait()
            return await compile_now(compiling, text)

        monkeypatch.setattr(Compiling, "_compile", compile_later)


def by_expression(number: int, **more: str) -> dict[str, str]:
    return {**pull_fields("T", 0, 0, subscription=f"a = {number}", expression_type="SQL92"), **more}


async def test_pulls_that_wait_for_their_expression_are_kept_without_a_body_and_count(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(monkeypatch)
    async with small_broker(KIB * KIB, enable_property_filter=True) as (broker, network):
        async with client_of(network, broker.address) as client:
            await client.send("T", b"1", "a\x011\x02")
            found: list[RemotingCommand] = []

            async def pull(number: int) -> None:
                found.append(await client.ask(RequestCode.PULL_MESSAGE, by_expression(number), bytes(200 * KIB)))

            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(pull, number)
                await wait_all_tasks_blocked()
                assert broker.memory.kinds().keys() == {WAITING_REQUESTS}
                assert 10 * KIB < broker.memory.kept < 20 * KIB
                assert sum(len(each.request.body) for each in broker.filters.registry.compiling._waiting) == 0
                waiting.over.set()
            assert sorted(answer.code for answer in found) == [0] + [ResponseCode.PULL_RETRY_IMMEDIATELY] * 9


async def test_pulls_that_wait_for_their_expression_are_refused_above_the_budget_and_go_with_their_connection(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(monkeypatch)
    async with small_broker(200 * KIB, enable_property_filter=True) as (broker, network):
        compiling = broker.filters.registry.compiling
        async with client_of(network, broker.address) as client, trio.open_nursery() as nursery:
            await client.send("T")
            codes: list[int] = []

            async def pull(number: int) -> None:
                fields = by_expression(number, more="x" * 40 * KIB)
                codes.append((await client.ask(RequestCode.PULL_MESSAGE, fields)).code)

            for number in range(6):
                nursery.start_soon(pull, number)
                await wait_all_tasks_blocked()
            assert codes == [ResponseCode.SYSTEM_BUSY] * 2
            assert len(compiling._waiting) == 4
            nursery.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        assert (len(compiling._waiting), broker.memory.kinds()) == (0, {})
        waiting.over.set()
        async with client_of(network, broker.address) as client:
            assert (await client.ask(RequestCode.PULL_MESSAGE, by_expression(1))).code != ResponseCode.SYSTEM_BUSY


async def test_answers_that_wait_for_the_disk_count(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with small_broker(KIB * KIB, flush_disk_type="SYNC_FLUSH") as (broker, network):
        async with client_of(network, broker.address) as client:
            await client.send("T")
            counted: list[dict[str, int]] = []
            release = broker.storing.gate.release
            monkeypatch.setattr(
                broker.storing.gate, "release", lambda: (counted.append(broker.memory.kinds()), release())
            )
            assert (await client.send("T")).code == 0
            assert counted[0].keys() == {ANSWERS}


async def test_work_in_slices_counts_and_is_refused_above_the_budget(autojump_clock: MockClock) -> None:
    async with small_broker(200 * KIB) as (broker, network):
        async with client_of(network, broker.address) as client:
            body = heartbeat("g", "T").encode()
            answer = await client.ask(RequestCode.HEART_BEAT, body=body + b" " * 100 * KIB)
            assert answer.code == ResponseCode.SYSTEM_BUSY
            assert (await client.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS
            larger = body + b" " * 40 * KIB
            assert (await client.ask(RequestCode.HEART_BEAT, body=larger)).code == ResponseCode.SUCCESS


async def test_work_under_way_counts_until_it_ends_or_its_connection_gives_way(autojump_clock: MockClock) -> None:
    memory = MemoryBudget(1000)
    slices = Slices(Steadily(0.01), memory)
    greedy, modest, ends = Closable(1), Closable(2), list[object]()

    def steps() -> Steps:
        for _ in range(3):
            yield
        return None

    slices.begin(steps(), greedy, lambda *end: ends.append(end), size=800)
    assert memory.kinds() == {WORK: 800}
    slices.begin(steps(), modest, lambda *end: ends.append(end), size=500)
    assert (greedy.is_open, ends, memory.kinds()) == (False, [(None, None)], {WORK: 500})
    for _ in range(5):
        slices.take_turn()
    assert (ends, memory.kept, len(slices)) == ([(None, None)] * 2, 0, 0)


async def test_what_heartbeats_leave_in_the_tables_counts(autojump_clock: MockClock) -> None:
    most = 512 * KIB
    async with small_broker(most) as (broker, network):
        async with client_of(network, broker.address) as greedy, client_of(network, broker.address) as modest:
            codes = []
            for number in range(10):
                beat = heartbeat(f"g{number}", *(f"topic-{number}-{n}" for n in range(50)))
                codes.append((await greedy.ask(RequestCode.HEART_BEAT, body=beat.encode())).code)
                assert broker.memory.kept <= most
            taken = codes.count(ResponseCode.SUCCESS)
            assert 3 < taken < 10
            assert codes == [ResponseCode.SUCCESS] * taken + [ResponseCode.SYSTEM_BUSY] * (10 - taken)
            assert broker.memory.kinds().keys() == {MEMBERSHIP}
            assert (await modest.heartbeat("g", "T")).code == ResponseCode.SUCCESS
            before = broker.memory.kept
            fields = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g0"}
            assert (await greedy.ask(RequestCode.UNREGISTER_CLIENT, fields)).code == ResponseCode.SUCCESS
            assert broker.memory.kept < before - 50 * KIB
            assert (await greedy.heartbeat("g0", "T")).code == ResponseCode.SUCCESS


async def test_a_heartbeat_that_is_sent_again_counts_once(autojump_clock: MockClock) -> None:
    async with small_broker(KIB * KIB) as (broker, network):
        async with client_of(network, broker.address) as one, client_of(network, broker.address) as other:
            kept = []
            for client in (one, other, one, one, other, other):
                await client.heartbeat("g", "T", "U")
                kept.append(broker.memory.kept)
            assert kept[1:] == [kept[1]] * 5
