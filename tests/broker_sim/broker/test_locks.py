"""Locks on queues for ordered consumption: who gets them, when they run out, and what they mean for retries."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from rocketpy.errors import BrokerError
from rocketpy.message import MessageQueue
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.tables.locks import LOCK_SECONDS, HeldLock, QueueLocks
from rocketpy_broker_sim.serving.memory import MemoryBudget, TableRoom
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, client_of

Q0, Q1, Q2, Q3 = (MessageQueue("T", "broker-a", number) for number in range(4))


async def lock(client: Client, client_id: str | None, *queues: MessageQueue, group: str | None = "g") -> set[int]:
    answer = await ask_lock(client, client_id, *queues, group=group)
    assert answer.code == 0, answer.remark
    return {queue.queue_id for queue in LockBatchResponseBody.decode(answer.body).lock_ok_mq_set}


async def ask_lock(
    client: Client, client_id: str | None, *queues: MessageQueue, group: str | None = "g", only: bool = False
) -> RemotingCommand:
    body = LockBatchRequestBody(
        consumer_group=group, client_id=client_id, mq_set=set(queues), only_this_broker=only
    ).encode()
    return await client.ask(RequestCode.LOCK_BATCH_MQ, body=body)


async def unlock(client: Client, client_id: str, *queues: MessageQueue, group: str = "g") -> RemotingCommand:
    body = UnlockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=set(queues)).encode()
    return await client.ask(RequestCode.UNLOCK_BATCH_MQ, body=body)


# --- who gets them ---------------------------------------------------------------------------------------


async def test_OR3_a_free_queue_is_locked_and_its_holder_may_refresh_it(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        assert await lock(client, "one", Q0) == {0}
        assert await lock(client, "one", Q0) == {0}
        assert await lock(client, "two", Q0) == set()
        assert await lock(client, "two", Q0, group="another") == {0}
        assert await lock(client, "two", MessageQueue("T", "broker-b", 0)) == {0}


async def test_OR3_of_a_batch_all_some_or_none_are_locked(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        assert await lock(client, "one", Q0, Q1) == {0, 1}
        assert await lock(client, "two", Q0, Q1, Q2, Q3) == {2, 3}
        assert await lock(client, "two", Q0, Q1) == set()
        assert await lock(client, "one", Q0, Q2) == {0}
        assert await lock(client, "one") == set()


async def test_OR3_a_lock_that_nobody_refreshes_runs_out(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await lock(client, "one", Q0, Q1)
        await trio.sleep(LOCK_SECONDS / 2)
        assert await lock(client, "one", Q0) == {0}
        await trio.sleep(LOCK_SECONDS / 2)
        assert await lock(client, "two", Q0, Q1) == set()
        await trio.sleep(0.001)
        assert await lock(client, "two", Q0, Q1) == {1}
        await trio.sleep(LOCK_SECONDS / 2)
        assert await lock(client, "two", Q0, Q1) == {0, 1}
        assert await lock(client, "one", Q0, Q1) == set()


async def test_OR3_only_the_holder_gives_a_queue_back(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await lock(client, "one", Q0, Q1)
        assert (await unlock(client, "two", Q0, Q1, Q2)).code == 0
        assert (await unlock(client, "one", Q0, group="another")).code == 0
        assert await lock(client, "two", Q0, Q1) == set()
        assert (await unlock(client, "one", Q0, Q3)).code == 0
        assert await lock(client, "two", Q0, Q1) == {0}
        assert (await unlock(client, "one", Q0)).code == 0
        assert await lock(client, "three", Q0) == set()


async def test_OR3_a_lock_outlives_the_connection_but_not_the_broker(autojump_clock: MockClock) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    async with broker_and_client(network, storage) as (broker, client):
        async with client_of(network, broker.address) as other:
            await lock(other, "one", Q0)
        assert await lock(client, "two", Q0) == set()
    async with broker_and_client(network, storage) as (_, client):
        assert await lock(client, "two", Q0) == {0}


async def test_OR3_the_replicas_are_left_alone_either_way(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for only in (True, False):
            answer = await ask_lock(client, "one", Q0, Q1, only=only)
            assert LockBatchResponseBody.decode(answer.body).lock_ok_mq_set == {Q0, Q1}


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client_id", "group", "queue"),
    [
        (None, "g", Q0),
        ("", "g", Q0),
        ("x" * 1025, "g", Q0),
        ("one", None, Q0),
        ("one", "../g", Q0),
        ("one", "g", MessageQueue("", "broker-a", 0)),
        ("one", "g", MessageQueue("x" * 256, "broker-a", 0)),
        ("one", "g", MessageQueue("T", "", 0)),
        ("one", "g", MessageQueue("T", "b" * 256, 0)),
        ("one", "g", MessageQueue("T", "broker-a", -1)),
    ],
)
async def test_OR3_what_can_be_no_lock_is_refused_as_a_whole(
    autojump_clock: MockClock, client_id: str | None, group: str | None, queue: MessageQueue
) -> None:
    async with broker_and_client() as (broker, client):
        answer = await ask_lock(client, client_id, queue, Q1, group=group)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert len(broker.clients.locks) == 0


async def test_OR3_a_body_that_is_none_is_refused_and_the_connection_stays(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            for body in (b"", b"[]", b"\xff", b'{"mqSet":[{"queueId":"x"}]}', b'{"mqSet":7}'):
                assert (await client.ask(code, body=body)).code != 0
        assert await lock(client, "one", Q0) == {0}


# --- what they take --------------------------------------------------------------------------------------


def test_locks_count_in_the_budget_until_they_run_out() -> None:
    now = 0.0
    budget = MemoryBudget(20 * 1024)
    locks = QueueLocks(lambda: now, TableRoom(budget, "wait"))
    while budget.fits_table(536):
        assert locks.lock("g", MessageQueue("T", "b", len(locks)), "one")
    held = len(locks)
    with pytest.raises(BrokerError, match="wait, or raise maxKeptBytes"):
        locks.lock("g", MessageQueue("T", "b", held), "one")
    assert len(locks) == held > 5
    assert budget.tables <= budget.most_in_tables
    assert locks.lock("g", MessageQueue("T", "b", 0), "one")  # refreshing takes nothing more
    now += LOCK_SECONDS
    for _ in locks.sweep():
        pass
    assert len(locks) == held
    now += 0.1
    for _ in locks.sweep():
        pass
    assert (len(locks), budget.tables) == (0, 0)
    assert locks.lock("g", MessageQueue("T", "b", 999), "one")


def test_queues_that_are_locked_together_share_what_is_equal() -> None:
    locks = QueueLocks(lambda: 0.0)
    queues = LockBatchRequestBody.decode(
        LockBatchRequestBody(mq_set={MessageQueue("Topic", "broker-a", number) for number in range(8)}).encode()
    ).mq_set
    assert len({id(queue.topic) for queue in queues}) == 8
    assert set(locks.lock_together("g", queues, "one")) == queues
    held = locks._groups["g"]
    assert {len({id(queue.topic) for queue in held}), len({id(queue.broker_name) for queue in held})} == {1}
    assert len({id(lock) for lock in held.values()}) == 1


def test_queues_of_others_are_left_out_of_those_locked_together() -> None:
    now = 0.0
    locks = QueueLocks(lambda: now)
    assert locks.lock_together("g", [Q0, Q1], "one") == [Q0, Q1]
    assert locks.lock_together("g", [Q0, Q1, Q2], "two") == [Q2]
    assert locks.unlock("g", Q0, "one")
    assert locks.lock_together("g", [Q0, Q1], "two") == [Q0]
    now = LOCK_SECONDS + 1
    assert locks.lock_together("g", [Q3, Q1], "two") == [Q3, Q1]


async def test_locks_that_ran_out_are_forgotten_though_nobody_asks(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        before = broker.memory.tables
        await lock(client, "one", Q0, Q1)
        await lock(client, "one", Q0, group="h")
        assert len(broker.clients.locks) == 3
        await trio.sleep(LOCK_SECONDS + 11)
        assert (len(broker.clients.locks), broker.memory.tables) == (0, before)


@pytest.mark.slow
async def test_a_batch_of_thousands_holds_up_nobody(autojump_clock: MockClock) -> None:
    queues = {MessageQueue(f"topic{number}", "broker-a", number) for number in range(10_000)}
    body = LockBatchRequestBody(consumer_group="g", client_id="one", mq_set=queues).encode()
    network, done = MemoryNetwork(), list[str]()
    async with broker_and_client(network) as (broker, client), client_of(network, broker.address) as other:

        async def ask_for_thousands() -> None:
            answer = await client.ask(RequestCode.LOCK_BATCH_MQ, body=body)
            assert LockBatchResponseBody.decode(answer.body).lock_ok_mq_set == queues
            done.append("thousands")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_for_thousands)
            for _ in range(2):
                assert await lock(other, "two", Q0) == {0}
                done.append("one")
        assert done == ["one", "one", "thousands"]
        assert len(broker.clients.locks) == len(queues) + 1


operations = st.lists(
    st.tuples(
        st.sampled_from(["lock", "unlock", "wait", "sweep"]),
        st.sampled_from(["g", "h"]),
        st.integers(0, 2),
        st.sampled_from(["one", "two"]),
        st.floats(0, 100),
    ),
    max_size=40,
)


@given(operations)
def test_OR3_locks_do_what_a_plain_model_does(steps: list[tuple[str, str, int, str, float]]) -> None:
    now = 0.0
    room = TableRoom()
    locks = QueueLocks(lambda: now, room)
    model: dict[tuple[str, int], tuple[str, float]] = {}
    for step, group, number, client_id, seconds in steps:
        key, queue = (group, number), MessageQueue("T", "b", number)
        holder, since = model.get(key, ("", float("-inf")))
        if step == "wait":
            now += seconds
        elif step == "sweep":
            for _ in locks.sweep():
                pass
        elif step == "lock":
            free = holder in ("", client_id) or now - since > LOCK_SECONDS
            assert locks.lock(group, queue, client_id) == free
            if free:
                model[key] = client_id, now
        elif locks.unlock(group, queue, client_id):
            assert model.pop(key)[0] == client_id
        else:
            assert holder != client_id or now - since > LOCK_SECONDS
        for each in ("g", "h"):
            live = [taken for (name, _), (_, taken) in model.items() if name == each and now - taken <= LOCK_SECONDS]
            assert locks.holds_any(each) == bool(live)
    assert (room.taken > 0) == (len(locks) > 0)


# --- what they mean for a message that is given up ---------------------------------------------------------


async def test_RT2_a_group_that_holds_locks_sends_what_it_gives_up_to_the_dead_letters(
    autojump_clock: MockClock,
) -> None:
    async with broker_and_client() as (broker, client):
        await client.heartbeat("g", "T")
        await lock(client, "c1", Q0)

        async def give_up(**fields: int) -> list[int]:
            answer = await client.send("%RETRY%g", properties="RETRY_TOPIC\x01T\x02DELAY\x013\x02", **fields)
            assert answer.code == 0, answer.remark
            return [broker.store.reads.max_offset(topic, 0) for topic in ("%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX")]

        assert await give_up(reconsume_times=1, max_reconsume_times=16) == [0, 1, 0]
        assert await give_up(reconsume_times=17, max_reconsume_times=16) == [0, 2, 0]
        await client.ask(RequestCode.UNLOCK_BATCH_MQ, body=b'{"consumerGroup":"g","clientId":"c1","mqSet":[]}')
        assert await give_up(reconsume_times=1, max_reconsume_times=16) == [0, 3, 0]
        await unlock(client, "c1", Q0)
        await give_up(reconsume_times=1, max_reconsume_times=16)
        assert broker.store.reads.max_offset("%DLQ%g", 0) == 3


async def test_RT2_locks_that_have_run_out_mean_nothing(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.heartbeat("g", "T")
        await lock(client, "c1", Q0)
        await trio.sleep(LOCK_SECONDS + 0.1)
        await client.send("%RETRY%g", reconsume_times=1)
        assert broker.store.reads.max_offset("%DLQ%g", 0) == 0
        assert broker.store.reads.max_offset("%RETRY%g", 0) == 1


def test_who_holds_what_and_for_how_long() -> None:
    now = 0.0
    locks = QueueLocks(lambda: now)
    locks.lock("g", Q1, "one")
    now = 20.0
    locks.lock("g", Q0, "two")
    now = 25.0
    assert locks.held("g") == {Q0: HeldLock("two", LOCK_SECONDS - 5), Q1: HeldLock("one", LOCK_SECONDS - 25)}
    assert locks.held("another") == {}
    now = LOCK_SECONDS + 1
    assert list(locks.held("g")) == [Q0]
