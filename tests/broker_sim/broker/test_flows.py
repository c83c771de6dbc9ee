"""What went through topics, queues and groups over the last minute, hour and day, and how tools ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.stats import BrokerStatsData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.admin import ViewBrokerStatsDataRequestHeader
from rocketpy.wire.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker import flows
from rocketpy_broker_sim.broker.flow import DAY, HOUR, MINUTE, Amount, Flow
from rocketpy_broker_sim.broker.flows import Flows
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, settings
from tests.virtual_time import loop_time


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(1_800_000_000_000)):
        yield


# --- windows ---------------------------------------------------------------------------------------------


def messages(flow: Flow, now: float) -> list[int]:
    return [flow.over(window, now)[0].messages for window in (MINUTE, HOUR, DAY)]


def test_A8_a_window_holds_what_is_younger() -> None:
    flow = Flow(5.0)
    flow.add(5.0, Amount(3, 300, 1, 7))
    assert flow.over(MINUTE, 6.0) == ((3, 300, 1, 7), 10.0)
    assert messages(flow, 64.0) == [3, 3, 3]
    assert messages(flow, 100.0) == [0, 3, 3]
    flow.add(4000.0, Amount(1))
    assert messages(flow, 4000.0) == [1, 4, 4]
    assert messages(flow, 4300.0) == [0, 1, 4]
    assert messages(flow, 5.0 + 25 * 3600) == [0, 0, 1]
    assert messages(flow, 1e9) == [0, 0, 0]


@given(st.lists(st.tuples(st.floats(0, 20_000), st.integers(1, 1000)), max_size=60), st.floats(0, 100_000))
def test_A8_no_window_loses_or_keeps_anything(counts: list[tuple[float, int]], wait: float) -> None:
    flow, now, told = Flow(0.0), 0.0, list[tuple[float, int]]()
    for pause, number in counts:
        now += pause
        flow.add(now, Amount(number))
        told.append((now, number))
    now += wait
    for window, width, steps in ((MINUTE, 10, 6), (HOUR, 600, 6), (DAY, 3600, 24)):
        found = flow.over(window, now)[0].messages
        assert sum(number for at, number in told if at > now - width * steps) <= found
        assert found <= sum(number for at, number in told if at >= now - width * (steps + 1))


# --- counting --------------------------------------------------------------------------------------------


def table(*names: str) -> TopicTable:
    topics = TopicTable(settings(), MemoryStorage())
    for name in names:
        topics.create_on_send(name, "TBW102", 4)
    return topics


def put(topic_flows: Flows, topic: str, *key: object) -> int:
    run_steps(topic_flows.add_steps())
    flow = topic_flows.of_topic(topic, *key)
    return 0 if flow is None else flow.over(DAY, 1.0)[0].messages


def test_A8_flows_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MOST_KEPT", 10)
    kept = Flows(lambda: 1.0, table("A", "B", "wide"))
    kept.note_put(("A", 0.0), 1, 100, 0)
    kept.note_get(("A", 0, "g"), 1, 100, 0.0)
    kept.note_put(("gone", 0.0), 1, 100, 0)
    assert put(kept, "A", "put") == put(kept, "A", "get", "g") == put(kept, "A", "get", 0, "g") == 1
    assert put(kept, "gone", "put") == 0
    assert len(kept) == 4
    for number in range(100):
        kept.note_put(("wide", number), 1, 100, 0.0)
    assert put(kept, "wide", "put") == 100
    assert len(kept) == 10
    assert put(kept, "A", "put") == 0
    kept.note_put(("B", 0.0), 1, 100, 0)
    assert put(kept, "B", "put") == 1
    kept.note_get(("B", 0, "g"), 1, 100, 0.0)
    kept.note_back("B", "g")
    kept.note_get(("B", 0, "h"), 1, 100, 0.0)
    assert put(kept, "B", "back", "g") == 1
    assert len(kept) == 7
    run_steps(kept.forget_group_steps("g"))
    assert put(kept, "B", "get", "g") == put(kept, "B", "get", 0, "g") == put(kept, "B", "back", "g") == 0
    assert put(kept, "B", "get", "h") == put(kept, "B", "put") == 1
    assert len(kept) == 4
    kept.forget("B")
    kept.forget("unknown")
    assert len(kept) == 0


def test_A8_beyond_a_number_of_queues_only_topics_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MOST_COUNTED", 10)
    kept = Flows(lambda: 1.0, table("T"))
    for number in range(100):
        kept.note_put(("T", number), 1, 100, 0.0)
        kept.note_get(("T", number, "g"), 2, 100, 0.0)
        kept.note_back("T", "g")
        kept.note_back(f"made up {number}", "g")
    assert put(kept, "T", "put") == put(kept, "T", "back", "g") == 100
    assert put(kept, "T", "get", "g") == 200
    assert put(kept, "T", "put", 9) == 1
    assert put(kept, "T", "put", 10) == 0


def test_A8_counting_goes_on_where_it_was_given_up() -> None:
    kept = Flows(lambda: 1.0, table("T"))
    for number in range(100):
        kept.note_put(("T", number), 1, 100, 0.0)
    steps = kept.add_steps()
    next(steps)
    steps.close()
    assert put(kept, "T", "put") == 100


# --- asking ----------------------------------------------------------------------------------------------


async def view(client: Client, name: str, key: str) -> BrokerStatsData | None:
    header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
    answer = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, header.to_ext())
    if answer.code == ResponseCode.SYSTEM_ERROR:
        assert answer.remark is not None
        assert answer.remark.startswith("The stats <")
        return None
    assert answer.code == 0, answer.remark
    return BrokerStatsData.decode(answer.body)


async def sums(client: Client, name: str, key: str) -> tuple[int, int, int] | None:
    found = await view(client, name, key)
    if found is None or found.stats_minute is None or found.stats_hour is None or found.stats_day is None:
        return None
    return found.stats_minute.sum, found.stats_hour.sum, found.stats_day.sum


@pytest.mark.slow
async def test_A8_what_topics_queues_and_groups_had(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        assert await sums(client, "TOPIC_PUT_NUMS", "T") is None
        for number in range(4):
            await client.send(body=b"x" * 100, queue_id=number % 2)
        await client.heartbeat("g", "T")
        size = len((await client.pull()).body)
        await client.pull(queue=1, offset=1)
        await client.pull(queue=0, offset=2)  # finds none
        one = size // 2
        assert await sums(client, "TOPIC_PUT_NUMS", "T") == (4, 4, 4)
        assert await sums(client, "TOPIC_PUT_SIZE", "T") == (4 * one,) * 3
        assert await sums(client, "QUEUE_PUT_NUMS", "T@1") == (2, 2, 2)
        assert await sums(client, "QUEUE_PUT_SIZE", "T@0") == (2 * one,) * 3
        assert await sums(client, "GROUP_GET_NUMS", "T@g") == (3, 3, 3)
        assert await sums(client, "GROUP_GET_SIZE", "T@g") == (3 * one,) * 3
        assert await sums(client, "QUEUE_GET_NUMS", "T@1@g") == (1, 1, 1)
        assert await sums(client, "QUEUE_GET_SIZE", "T@0@g") == (size,) * 3
        assert await sums(client, "TOPIC_PUT_LATENCY", "0@T") == (0, 0, 0)
        assert await sums(client, "GROUP_GET_LATENCY", "0@T@g") == (0, 0, 0)
        assert await sums(client, "BROKER_PUT_NUMS", "DefaultCluster") == (4, 4, 4)
        assert await sums(client, "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster") == (3, 3, 3)
        found = await view(client, "GROUP_GET_NUMS", "T@g")
        assert found is not None
        assert found.stats_minute is not None
        assert found.stats_minute.avgpt == 1.5
        await trio.sleep(100)
        await client.send()
        assert await sums(client, "TOPIC_PUT_NUMS", "T") == (1, 5, 5)
        for _ in range(75):
            await client.heartbeat("g", "T")
            await trio.sleep(100)
        assert await sums(client, "TOPIC_PUT_NUMS", "T") == (0, 0, 5)


async def test_A8_what_comes_a_second(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for _ in range(100):
            await client.send()
            await trio.sleep(1)
        found = await view(client, "TOPIC_PUT_NUMS", "T")
        assert found is not None
        assert found.stats_minute is not None
        assert found.stats_minute.tps == pytest.approx(1.0, abs=0.2)
        assert found.stats_minute.avgpt == 1.0


async def test_A8_a_service_adds_up_what_was_counted_while_nobody_asks(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        kept = broker.counting.flows
        await client.send()
        assert len(kept) == 0
        await trio.sleep(flows.EVERY + 0.1)
        assert len(kept) == 2
        await client.send(queue_id=1)
        await trio.sleep(flows.EVERY + 0.1)
        assert len(kept) == 3
        assert not kept._woken.is_set()  # it sleeps while nothing moves


async def test_A8_topics_of_the_system_count_apart(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send(properties="DELAY\x011\x02")
        assert await sums(client, "TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX") == (1, 1, 1)
        assert await sums(client, "BROKER_PUT_NUMS", "DefaultCluster") == (1, 1, 1)
        assert await sums(client, "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster") is None
        await trio.sleep(3)
        assert await sums(client, "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster") == (1, 1, 1)


async def test_A8_what_was_sent_back_and_what_is_deleted(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        await client.heartbeat("g", "T")
        [message] = decode_messages((await client.pull()).body)
        back = ConsumerSendMsgBackRequestHeader(offset=message.commit_log_offset, group="g", delay_level=0)
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back.to_ext())).code == 0
        assert await sums(client, "SNDBCK_PUT_NUMS", "T@g") == (1, 1, 1)
        assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})).code == 0
        assert await sums(client, "GROUP_GET_NUMS", "T@g") is None
        assert await sums(client, "TOPIC_PUT_NUMS", "T") == (1, 1, 1)
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        for name, key in (("TOPIC_PUT_NUMS", "T"), ("GROUP_GET_NUMS", "T@g"), ("SNDBCK_PUT_NUMS", "T@g")):
            assert await sums(client, name, key) is None


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", ""),
        ("NO_SUCH", "T"),
        ("QUEUE_PUT_NUMS", "T"),
        ("QUEUE_PUT_NUMS", "T@x"),
        ("QUEUE_PUT_NUMS", "T@-1"),
        ("QUEUE_PUT_NUMS", "T@" + "9" * 5000),
        ("QUEUE_PUT_NUMS", "T@²"),
        ("GROUP_GET_NUMS", "T@g@h"),
        ("BROKER_PUT_NUMS", "OtherCluster"),
        ("GROUP_ACK_NUMS", "T@g"),
        ("x" * 5000, "\r\nFAKE"),
    ],
)
async def test_A8_a_statistic_that_does_not_exist_is_an_error(autojump_clock: MockClock, name: str, key: str) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        assert await view(client, name, key) is None
        assert (await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name})).code != 0


async def test_A8_what_a_start_finds_in_the_log_did_not_come_just_now(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send()
    async with broker_and_client(storage=storage) as (_, client):
        assert await sums(client, "TOPIC_PUT_NUMS", "T") is None
