"""Where a consumer begins in a queue, and what it keeps of offsets."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer.offsets.offset_store import RemoteBrokerOffsetStore
from rocketpy.consumer.offsets.start_position import timestamp_ms
from rocketpy.errors import BrokerError, BrokerUnreachableError, ConfigError
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeFromWhere
from rocketpy.seams import wall_clock
from rocketpy.wire.codes import ResponseCode
from tests.consumer.brokers import World, queue, world

LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
RETRY = "%RETRY%billing"


async def first_pulls(w: World, **settings: object) -> tuple[int, int]:
    """Where a new consumer begins in the topic and in the retry topic."""
    consumer = w.consumer(**settings)
    consumer.subscribe("Orders", lambda message: None)
    async with consumer:
        await trio.testing.wait_all_tasks_blocked()
        return w.broker.pulled()[0], w.broker.pulled(RETRY)[0]


@pytest.mark.parametrize(("where", "begin", "retry"), [(LAST, 50, 0), (FIRST, 0, 0), (TIMESTAMP, 30, 7)])
async def test_PL11_where_a_group_without_offsets_begins(
    autojump_clock: MockClock, where: ConsumeFromWhere, begin: int, retry: int
) -> None:
    async with world() as w:
        w.broker.logs["Orders", 0].max_offset = 50
        w.broker.logs[RETRY, 0].max_offset = 7
        assert await first_pulls(w, consume_from_where=where) == (begin, retry)


@pytest.mark.parametrize("where", [LAST, FIRST, TIMESTAMP])
@pytest.mark.parametrize("offset", [0, 12])
async def test_PL11_a_stored_offset_wins(autojump_clock: MockClock, where: ConsumeFromWhere, offset: int) -> None:
    async with world() as w:
        w.broker.logs["Orders", 0].max_offset = 50
        w.broker.offsets = {("Orders", 0): offset, (RETRY, 0): 3}
        assert await first_pulls(w, consume_from_where=where) == (offset, 3)


async def test_PL11_the_timestamp_is_local_time(autojump_clock: MockClock) -> None:
    async with world() as w:
        await first_pulls(w, consume_from_where=TIMESTAMP, consume_timestamp="20240131235959")
        [search] = w.broker.searches
        assert search.timestamp == datetime(2024, 1, 31, 23, 59, 59).timestamp() * 1000  # noqa: DTZ001  local is meant


def test_PL11_without_a_timestamp_half_an_hour_ago_counts() -> None:
    with wall_clock(lambda: 1_700_000_000_000):
        assert timestamp_ms(None) == 1_700_000_000_000 - 1_800_000
    with pytest.raises(ConfigError, match="must look like 20240131235959"):
        timestamp_ms("20240231000000")


def test_PL11_a_moment_may_be_said_in_three_ways() -> None:
    moment = datetime(2024, 1, 31, 23, 59, 59, tzinfo=UTC)
    assert timestamp_ms(moment) == timestamp_ms(1_706_745_599_000) == 1_706_745_599_000
    assert timestamp_ms(moment.astimezone().strftime("%Y%m%d%H%M%S")) == 1_706_745_599_000
    assert timestamp_ms(0) == 0
    with pytest.raises(ConfigError, match="which looks like seconds: give milliseconds"):
        timestamp_ms(1_706_745_599)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone of the process cannot be set")
@pytest.mark.parametrize("zone", ["EAST-8", "WEST+8"])
@pytest.mark.parametrize("text", ["00010101000000", "99991231235959"])
def test_PL11_the_ends_of_the_calendar_are_no_crash(monkeypatch: pytest.MonkeyPatch, zone: str, text: str) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        with suppress(ConfigError):  # it does not exist in some time zones, which must raise no other error
            timestamp_ms(text)
    time.tzset()


@pytest.mark.parametrize("where", [LAST, FIRST, TIMESTAMP])
async def test_PL11_a_query_that_fails_keeps_the_queue_from_starting(
    autojump_clock: MockClock, where: ConsumeFromWhere
) -> None:
    async with world() as w:
        w.broker.logs["Orders", 0].max_offset = 50
        w.broker.query_code = ResponseCode.SYSTEM_ERROR
        consumer = w.consumer(consume_from_where=where)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            assert consumer.assignment == ()
            assert isinstance(consumer.status().errors["Orders"], BrokerError)
            assert not consumer.status().balanced
            await trio.sleep(30)
            assert w.broker.pulls == []
            assert w.broker.commits == []
            w.broker.query_code = 0
            w.broker.offsets["Orders", 0] = 20
            await trio.sleep(20)
            assert consumer.assignment == (queue(),)
            assert w.broker.pulled() == [20]


async def test_OF1_the_store_tells_nothing_from_an_error(autojump_clock: MockClock) -> None:
    async with world() as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        store = RemoteBrokerOffsetStore(client, "billing")
        await client.routes.ensure_subscribe("Orders")
        assert store.memory(queue()) is None
        assert await store.read(queue()) is None
        assert store.memory(queue()) is None
        w.broker.offsets["Orders", 0] = 9
        assert await store.read(queue()) == 9
        assert store.memory(queue()) == 9
        w.broker.query_code = ResponseCode.SYSTEM_ERROR
        with pytest.raises(BrokerError, match="asking for the offset of billing in Orders@broker-a:0 refused"):
            await store.read(queue())
        with pytest.raises(BrokerUnreachableError, match="broker-x"):
            await store.read(queue(broker="broker-x"))
        assert store.memory(queue()) == 9


async def test_OF1_memory_increases_only_when_told_so_and_forgets(autojump_clock: MockClock) -> None:
    async with world() as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        store = RemoteBrokerOffsetStore(client, "billing")
        store.update(queue(), 10)
        store.update(queue(), 8, increase_only=True)
        assert store.memory(queue()) == 10
        store.update(queue(), 11, increase_only=True)
        assert store.memory(queue()) == 11
        store.update(queue(), 2)
        assert store.memory(queue()) == 2
        store.remove(queue())
        store.remove(queue())
        assert store.memory(queue()) is None


async def test_OF1_what_is_noted_is_committed(autojump_clock: MockClock) -> None:
    async with world(queues=3) as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        store = RemoteBrokerOffsetStore(client, "billing")
        await client.routes.ensure_subscribe("Orders")
        store.update(queue(0), 5)
        store.update(queue(1), 6)
        assert await store.commit_all([queue(1), queue(2)], deadline=trio.current_time() + 9) == []
        assert [(each.queue_id, each.commit_offset, each.consumer_group) for each in w.broker.commits] == [
            (1, 6, "billing")
        ]
        assert not w.broker.requests[-1].is_oneway
        await store.persist([queue(0)])
        await trio.testing.wait_all_tasks_blocked()
        assert w.broker.requests[-1].is_oneway
        assert w.broker.offsets["Orders", 0] == 5


@pytest.mark.parametrize(("then", "told"), [(9, [9]), (None, [])], ids=["progress", "forgotten"])
@pytest.mark.parametrize("way", ["persist", "commit", "commit_all"])
async def test_OF1_a_commit_that_waits_for_its_broker_never_goes_back(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, way: str, then: int | None, told: list[int]
) -> None:
    async with world() as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        store = RemoteBrokerOffsetStore(client, "billing")
        await client.routes.ensure_subscribe("Orders")
        store.update(queue(), 5)
        dial = client.pool.get

        async def get(address: str, *, timeout: float) -> Connection:
            if then is None:
                store.remove(queue())
            else:
                store.update(queue(), then)
            return await dial(address, timeout=timeout)

        monkeypatch.setattr(client.pool, "get", get)
        limits = {"deadline": trio.current_time() + 9} if way == "commit_all" else {}
        await getattr(store, way)([queue()], **limits)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.commit_offset for each in w.broker.commits] == told


async def test_OF1_a_commit_that_fails_is_no_error(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        store = RemoteBrokerOffsetStore(client, "billing")
        store.update(queue(broker="broker-x"), 5)
        for _ in range(3):
            left = await store.commit_all([queue(broker="broker-x")], deadline=trio.current_time() + 9)
            assert left == [queue(broker="broker-x")]
        assert [each.levelname for each in caplog.records if "is not committed yet" in each.message] == ["WARNING"]


async def test_offsets_are_committed_at_an_interval_and_with_pulls(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(40)
        consumer = w.consumer(consume_from_where=FIRST, persist_consumer_offset_interval=5)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(1)
            assert w.broker.commits == []
            # The first pull has nothing to commit, the second and the third commit what was consumed by then.
            commits = [(pull.sys_flag & 1, pull.commit_offset) for pull in w.broker.pulls if pull.topic == "Orders"]
            assert commits[0] == (0, 0)
            assert commits[-1][0] == 1
            await trio.sleep(4.5)
            assert [each.commit_offset for each in w.broker.commits if each.topic == "Orders"] == [40]
