"""Budgets, bounds and ages of the lanes, with processors and connections that only take notes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.flushing.gate import Durability
from rocketpy_broker_sim.broker.lane import RUNS_PER_THREAD, Lane
from rocketpy_broker_sim.broker.lanes import LARGE, RUNS_PER_TURN, SLICE, Lanes, Route
from rocketpy_broker_sim.broker.putting.put_times import PutTimes
from rocketpy_broker_sim.broker.router import default_route, lanes_of, routes_of
from rocketpy_broker_sim.broker.turn import Turn
from rocketpy_broker_sim.broker.write_conditions import WriteConditions
from rocketpy_broker_sim.config import MessageStoreConfig
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, broker_and_client, client_of, pull_fields, settings

PULL, BEAT, SEND = 11, 34, 310


class Peer:
    """A connection that keeps its answers."""

    address = "peer:1"
    is_open = True

    def __init__(self) -> None:
        self.answers: list[tuple[int, int]] = []
        self.remarks: list[str | None] = []
        self.readable = trio.Event()
        self.readable.set()

    def has_room(self) -> bool:
        return self.readable.is_set()

    def has_time(self) -> bool:
        return True

    async def wait_writable(self) -> None:
        await self.readable.wait()

    def send_answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        self.answers.append((request.code, answer.code))
        self.remarks.append(answer.remark)


class Store:
    def commit_pending(self) -> None:
        raise AssertionError("nothing was put")


def turn_of(store: Store) -> Turn:
    conditions = WriteConditions(MessageStoreConfig(), trio.current_time)
    times = PutTimes(trio.current_time)
    return Turn(store, Durability(store, times), conditions, times)


def make(
    *, pull_threads: int = 1, capacity: int = 10_000, age: float = 0.0, body: bytes = b""
) -> tuple[Lanes, Callable[[], list[int]]]:
    done: list[int] = []

    def processor(connection: Peer, request: RemotingCommand) -> RemotingCommand:
        done.append(request.code)
        return request.answer(body=body)

    lanes = [
        Lane(name="heartbeat", threads=1, capacity=100),
        Lane(name="pull", threads=pull_threads, capacity=capacity, max_age=lambda: age),
        Lane(name="send", threads=1, capacity=10_000),
    ]
    routes = {PULL: Route(processor, "pull"), BEAT: Route(processor, "heartbeat"), SEND: Route(processor, "send")}
    return Lanes(lanes, routes, routes[SEND], turn_of(Store())), lambda: done


def requests(code: int, count: int = 1) -> list[RemotingCommand]:
    return [RemotingCommand(code, opaque=n) for n in range(count)]


async def test_a_lane_runs_its_budget_at_once_and_the_rest_in_later_turns(autojump_clock: MockClock) -> None:
    lanes, done = make()
    peer = Peer()
    assert lanes.handle(peer, requests(PULL, 1000), trio.current_time()) == 1000
    assert len(done()) == len(peer.answers) == RUNS_PER_THREAD
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lanes.serve)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(peer.answers) == 1000
    assert lanes.statistics()["pull"].done == 1000
    assert lanes.statistics()["pull"].waiting == 0


async def test_a_budget_that_was_spent_is_there_again_in_the_next_turn(autojump_clock: MockClock) -> None:
    lanes, done = make()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lanes.serve)
        for turn in (1, 2, 3):
            await wait_all_tasks_blocked()
            lanes.handle(Peer(), requests(PULL, RUNS_PER_THREAD), trio.current_time())
            assert len(done()) == turn * RUNS_PER_THREAD, "nothing waits"
        nursery.cancel_scope.cancel()


async def test_the_oldest_request_of_a_lane_is_the_first_of_those_that_wait(autojump_clock: MockClock) -> None:
    lanes, _ = make()
    peer, other = Peer(), Peer()
    lanes.handle(peer, requests(PULL, RUNS_PER_THREAD + 1), trio.current_time())
    assert lanes.statistics()["send"].oldest == 0
    for each in (other, peer):
        await trio.sleep(1)
        lanes.handle(each, requests(PULL), trio.current_time())
    assert lanes.statistics()["pull"].oldest == 2
    lanes.take_turn()
    assert lanes.statistics()["pull"].oldest == 0


async def test_threads_raise_what_a_lane_runs_in_a_turn(autojump_clock: MockClock) -> None:
    lanes, done = make(pull_threads=3)
    lanes.handle(Peer(), requests(PULL, 1000), trio.current_time())
    assert len(done()) == 3 * RUNS_PER_THREAD
    lanes.take_turn()
    assert len(done()) == 6 * RUNS_PER_THREAD


async def test_R9_a_full_lane_answers_busy_and_the_others_go_on(autojump_clock: MockClock) -> None:
    lanes, done = make(capacity=10)
    peer = Peer()
    lanes.handle(peer, requests(PULL, RUNS_PER_THREAD + 10 + 7), trio.current_time())
    assert peer.answers.count((PULL, ResponseCode.SYSTEM_BUSY)) == 7
    assert all(remark.startswith("[OVERLOAD]") for remark in peer.remarks if remark)
    assert lanes.statistics()["pull"].overloaded == 7
    lanes.handle(peer, requests(BEAT) + requests(SEND), trio.current_time())
    assert peer.answers[-2:] == [(BEAT, 0), (SEND, 0)]
    assert len(done()) == RUNS_PER_THREAD + 2


async def test_in_a_full_lane_who_has_most_makes_room_for_who_has_little(autojump_clock: MockClock) -> None:
    lanes, _ = make(capacity=10)
    greedy, other, modest = Peer(), Peer(), Peer()
    lanes.handle(greedy, requests(PULL, RUNS_PER_THREAD + 7), trio.current_time())
    lanes.handle(other, requests(PULL, 3), trio.current_time())
    assert greedy.answers.count((PULL, ResponseCode.SYSTEM_BUSY)) == 0
    for number in (1, 2, 3):
        lanes.handle(modest, requests(PULL), trio.current_time())
        assert greedy.answers.count((PULL, ResponseCode.SYSTEM_BUSY)) == number
    lanes.handle(modest, requests(PULL), trio.current_time())  # the others have as many by now, or one more
    assert modest.answers == [(PULL, ResponseCode.SYSTEM_BUSY)]
    assert lanes.statistics()["pull"].overloaded == 4
    assert lanes.statistics()["pull"].waiting == 10
    lanes.take_turn()
    assert [peer.answers.count((PULL, 0)) for peer in (greedy, other, modest)] == [RUNS_PER_THREAD + 4, 3, 3]
    assert lanes.statistics()["pull"].waiting == 0


async def test_a_pull_that_was_held_gives_no_place_up(autojump_clock: MockClock) -> None:
    lanes, _ = make(capacity=4)
    held, modest = Peer(), Peer()
    lanes.handle(Peer(), requests(PULL, RUNS_PER_THREAD), trio.current_time())
    for each in requests(PULL, 4):
        lanes.submit("pull", lambda _, request: request.answer(), held, each)
    lanes.handle(modest, requests(PULL), trio.current_time())
    assert modest.answers == [(PULL, ResponseCode.SYSTEM_BUSY)]
    lanes.take_turn()
    assert held.answers == [(PULL, 0)] * 4


async def test_R9_what_waited_too_long_is_answered_busy_not_run(autojump_clock: MockClock) -> None:
    lanes, done = make(age=5.0)
    peer = Peer()
    lanes.handle(peer, requests(PULL, RUNS_PER_THREAD + 3), trio.current_time())
    await trio.sleep(5)
    lanes.take_turn()
    assert len(done()) == RUNS_PER_THREAD
    assert [remark for remark in peer.remarks if remark and remark.startswith("[TIMEOUT_CLEAN_QUEUE]")] == (
        peer.remarks[-3:]
    )
    assert lanes.statistics()["pull"].timed_out == 3


async def test_R9_the_age_counts_from_the_arrival_of_the_frame(autojump_clock: MockClock) -> None:
    lanes, done = make(age=5.0)
    peer = Peer()
    arrived = trio.current_time()
    await trio.sleep(4.9)
    lanes.handle(peer, requests(PULL), arrived)
    assert peer.answers == [(PULL, 0)]
    await trio.sleep(0.2)
    lanes.handle(peer, requests(PULL), arrived)
    assert peer.answers[1] == (PULL, ResponseCode.SYSTEM_BUSY)
    assert len(done()) == 1


async def test_a_flood_of_pulls_never_delays_a_heartbeat(autojump_clock: MockClock) -> None:
    lanes, done = make()
    for _ in range(20):
        lanes.handle(Peer(), requests(PULL, 400), trio.current_time())
    peer = Peer()
    lanes.handle(peer, requests(BEAT), trio.current_time())
    assert peer.answers == [(BEAT, 0)]
    assert len(done()) == RUNS_PER_THREAD + 1
    # Even heartbeats that have to wait are the first of the next turn, and a turn is bounded.
    lanes.handle(peer, requests(BEAT, RUNS_PER_THREAD + 9), trio.current_time())
    before = len(done())
    lanes.take_turn()
    turn = done()[before:]
    assert turn[:10] == [BEAT] * 10
    assert len(turn) <= RUNS_PER_TURN


async def test_a_connection_leaves_off_when_its_turn_is_over(autojump_clock: MockClock) -> None:
    """What a turn holds, and that all connections share the time of a round, `rounds` sees to."""
    now = 0.0

    class Timed(Peer):
        until = 0.0

        def has_time(self) -> bool:
            return now < self.until

    def processor(connection: Peer, request: RemotingCommand) -> RemotingCommand:
        nonlocal now
        now += 0.001
        return request.answer()

    lanes = [Lane(name="admin", threads=100, capacity=10_000)]
    made = Lanes(lanes, {}, Route(processor, "admin"), turn_of(Store()))
    peer = Timed()
    assert made.handle(peer, requests(SEND, 20), trio.current_time()) == 1, "something is done in any case"
    peer.until = now + 0.010
    assert made.handle(peer, requests(SEND, 64), trio.current_time()) == 2 * SLICE
    large = [RemotingCommand(SEND, opaque=n, body=bytes(LARGE + 1)) for n in range(64)]
    peer.until = now + 0.010
    assert made.handle(peer, large, trio.current_time()) == 10, "it looks at the time after each"


async def test_waiting_lanes_share_a_turn(autojump_clock: MockClock) -> None:
    lanes, done = make(pull_threads=100)
    flooder = Peer()
    for _ in range(100):
        lanes.handle(flooder, requests(PULL, RUNS_PER_THREAD), trio.current_time())
    lanes.handle(flooder, requests(PULL, 500), trio.current_time())
    lanes.handle(Peer(), requests(SEND, RUNS_PER_THREAD + 20), trio.current_time())
    before = len(done())
    lanes.take_turn()
    assert done()[before:].count(SEND) == 20
    assert len(done()) - before == RUNS_PER_TURN


async def test_a_peer_that_does_not_read_is_not_served_and_holds_up_nobody(autojump_clock: MockClock) -> None:
    lanes, _ = make(body=bytes(10_000))
    slow, quick = Peer(), Peer()
    slow.readable = trio.Event()
    taken = lanes.handle(slow, requests(PULL, 64), trio.current_time())
    assert 0 < taken < 64
    lanes.handle(quick, requests(PULL, RUNS_PER_THREAD), trio.current_time())
    lanes.handle(slow, requests(PULL, 8), trio.current_time())
    lanes.handle(quick, requests(PULL, 8), trio.current_time())
    served = len(slow.answers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lanes.serve)
        await wait_all_tasks_blocked()
        assert len(quick.answers) == RUNS_PER_THREAD + 8
        assert len(slow.answers) == served
        slow.readable.set()
        await wait_all_tasks_blocked()
        assert len(slow.answers) == served + 8
        nursery.cancel_scope.cancel()


async def test_the_lanes_have_the_bounds_of_the_settings(autojump_clock: MockClock) -> None:
    config = settings(
        send_message_thread_pool_nums=2,
        send_thread_pool_queue_capacity=3,
        wait_time_mills_in_send_queue=400,
        client_manager_thread_pool_queue_capacity=5,
    )
    lanes = {lane.name: lane for lane in lanes_of(config)}
    assert list(lanes) == [
        "heartbeat", "send", "pull", "lite pull", "reply", "query", "end transaction", "client", "consumer", "ack",
        "admin",
    ]  # fmt: skip
    assert (lanes["send"].budget, lanes["send"].capacity, lanes["send"].max_age()) == (2 * RUNS_PER_THREAD, 3, 0.4)
    assert (lanes["client"].capacity, lanes["client"].max_age()) == (5, 0)
    ages = {name: lane.max_age() for name, lane in lanes.items()}
    assert [ages[name] for name in ("pull", "lite pull", "heartbeat", "end transaction", "ack", "admin")] == [
        5, 5, 31, 3, 3, 5,
    ]  # fmt: skip
    config.wait_time_mills_in_send_queue = 900
    assert lanes["send"].max_age() == 0.9
    config.broker_fast_failure_enable = False
    assert lanes["send"].max_age() == 0


BUDGETS = {"send": 0.2, "pull": 5, "lite pull": 5, "heartbeat": 31, "end transaction": 3, "ack": 3, "admin": 5}


@pytest.mark.parametrize("name", BUDGETS)
async def test_R9_each_lane_bears_a_wait_of_its_own(autojump_clock: MockClock, name: str) -> None:
    def run(connection: Peer, request: RemotingCommand) -> RemotingCommand:
        return request.answer()

    all_lanes = lanes_of(settings())
    lane = next(each for each in all_lanes if each.name == name)
    route = Route(run, name)
    lanes, peer = Lanes(all_lanes, {SEND: route}, route, turn_of(Store())), Peer()
    lane.used = lane.budget  # the lane is busy, so that requests wait in it
    lanes.handle(peer, requests(SEND), trio.current_time())
    await trio.sleep(0.01)
    lanes.handle(peer, requests(SEND), trio.current_time())
    await trio.sleep(BUDGETS[name] - 0.005)
    lanes.take_turn()
    assert peer.answers == [(SEND, ResponseCode.SYSTEM_BUSY), (SEND, ResponseCode.SUCCESS)]
    assert (peer.remarks[0] or "").startswith("[TIMEOUT_CLEAN_QUEUE]")
    assert (lane.timed_out, lane.done) == (1, 1)


LANE_OF = {
    RequestCode.SEND_MESSAGE: "send",
    RequestCode.SEND_MESSAGE_V2: "send",
    RequestCode.SEND_BATCH_MESSAGE: "send",
    RequestCode.CONSUMER_SEND_MSG_BACK: "send",
    RequestCode.RECALL_MESSAGE: "send",
    RequestCode.SEND_REPLY_MESSAGE: "reply",
    RequestCode.SEND_REPLY_MESSAGE_V2: "reply",
    RequestCode.PULL_MESSAGE: "pull",
    RequestCode.LITE_PULL_MESSAGE: "lite pull",
    RequestCode.QUERY_MESSAGE: "query",
    RequestCode.VIEW_MESSAGE_BY_ID: "query",
    RequestCode.HEART_BEAT: "heartbeat",
    RequestCode.UNREGISTER_CLIENT: "client",
    RequestCode.CHECK_CLIENT_CONFIG: "client",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "consumer",
    RequestCode.QUERY_CONSUMER_OFFSET: "consumer",
    RequestCode.UPDATE_CONSUMER_OFFSET: "consumer",
    RequestCode.END_TRANSACTION: "end transaction",
}


async def test_R9_each_request_waits_in_the_lane_of_its_kind(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, _):
        lanes = {code: route.lane for code, route in routes_of(broker._views).items()}
        assert {code: lane for code, lane in lanes.items() if lane != "admin"} == LANE_OF
        assert default_route().lane == "admin"


@pytest.mark.parametrize("name", ["reply", "query", "client", "consumer"])
async def test_R9_other_lanes_bear_any_wait(autojump_clock: MockClock, name: str) -> None:
    all_lanes = lanes_of(settings())
    route = Route(lambda connection, request: request.answer(), name)
    lanes, peer = Lanes(all_lanes, {}, route, turn_of(Store())), Peer()
    lanes.handle(peer, requests(SEND), trio.current_time() - 3600)
    assert peer.answers == [(SEND, ResponseCode.SUCCESS)]


async def test_R9_a_broker_under_a_flood_of_pulls_beats_on(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    bounds = {"pull_message_thread_pool_nums": 1, "pull_thread_pool_queue_capacity": 50}
    async with broker_and_client(network, **bounds) as (broker, client):
        await client.send()
        codes: list[int] = []

        async def pulls() -> None:
            async with client_of(network, broker.address) as flooder, trio.open_nursery() as nursery:

                async def one() -> None:
                    codes.append((await flooder.pull()).code)

                for _ in range(64):
                    nursery.start_soon(one)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(pulls)
            while len(codes) < 640:
                assert (await client.heartbeat("g", "T")).code == 0
        assert set(codes) == {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}
        assert broker.lanes.statistics()["pull"].overloaded == codes.count(ResponseCode.SYSTEM_BUSY)


async def test_a_woken_pull_stays_within_the_budget_of_its_lane(autojump_clock: MockClock) -> None:
    async with broker_and_client(pull_message_thread_pool_nums=1) as (broker, client):
        await client.send()
        async with trio.open_nursery() as nursery:
            for n in range(300):
                fields = pull_fields("T", 0, 1, consumer_group=f"g{n}", sys_flag=SUSPEND | SUBSCRIPTION)
                nursery.start_soon(client.ask, RequestCode.PULL_MESSAGE, fields)
            await wait_all_tasks_blocked()
            await client.send()
        assert broker.lanes.statistics()["pull"].done == 600


@pytest.mark.parametrize("oneway", [False, True])
async def test_a_processor_that_fails_answers_for_its_request_alone(autojump_clock: MockClock, oneway: bool) -> None:
    lanes, _ = make()

    def broken(connection: Peer, request: RemotingCommand) -> RemotingCommand:
        raise ZeroDivisionError("a bug")

    lanes._routes[PULL] = (broken, lanes._lanes["pull"])
    peer = Peer()
    lanes.handle(peer, [*requests(PULL), *requests(SEND)], trio.current_time())
    assert peer.answers == [(PULL, ResponseCode.SYSTEM_ERROR), (SEND, 0)]
    assert "bug" not in (peer.remarks[0] or "")


async def test_answers_to_many_woken_pulls_do_not_gather(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        run, most = broker.storing.turn.run, 0

        def watched(processor: object, connection: object, request: RemotingCommand) -> None:
            nonlocal most
            run(processor, connection, request)
            most = max(most, broker.storing.turn.pending_bytes)

        broker.storing.turn.run = watched
        async with trio.open_nursery() as nursery:
            for n in range(100):
                fields = pull_fields("T", 0, 1, consumer_group=f"g{n}", sys_flag=SUSPEND | SUBSCRIPTION)
                nursery.start_soon(client.ask, RequestCode.PULL_MESSAGE, fields)
            await wait_all_tasks_blocked()
            await client.send(body=bytes(50_000))
        assert 50_000 < most < 200_000
