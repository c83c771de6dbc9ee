"""What is asked before a put, what a refusal says, and how long puts took."""

from __future__ import annotations

import errno

import pytest
import trio
from trio.testing import MockClock

from rocketpy.wire.bodies.route import KVTable
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.putting.put_times import PutTimes
from rocketpy_broker_sim.config import BrokerRole
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.running_flags import RunningFlag
from tests.broker_sim.broker.flushing import test_flusher as hanging
from tests.broker_sim.broker.kit import Client, bodies, broker_and_client


class SlowDisk:
    """Writes to the log take their time: the loop stands still meanwhile."""

    def __init__(self, clock: MockClock, seconds: float) -> None:
        self.seconds = seconds
        self._clock = clock

    def __call__(self, operation: str, path: str, size: int) -> None:
        if operation == "pwrite" and path.startswith("commitlog") and self.seconds:
            self._clock.jump(self.seconds)


async def test_K2_K4_an_append_that_takes_too_long_makes_the_broker_busy_for_a_moment(
    autojump_clock: MockClock,
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        storage.fault = slow = SlowDisk(autojump_clock, 0.9)
        assert (await client.send(body=b"slow")).code == 0
        assert (await client.send(body=b"slow too")).code == 0
        slow.seconds = 1.2
        assert (await client.send(body=b"too slow")).code == 0
        slow.seconds = 0
        answer = await client.send(body=b"refused")
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert answer.remark.startswith("[PC_SYNCHRONIZED]")
        assert broker.storing.conditions.held_ms == 1200
        assert bodies(await client.pull()) == [b"slow", b"slow too", b"too slow"]
        await trio.sleep(0.1)
        assert (await client.send(body=b"again")).code == 0
        assert broker.storing.conditions.held_ms == 0


async def test_os_page_cache_busy_time_out_mills(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, os_page_cache_busy_time_out_mills=100) as (_, client):
        storage.fault = SlowDisk(autojump_clock, 0.2)
        await client.send()
        assert (await client.send()).code == ResponseCode.SYSTEM_BUSY


async def test_K2_a_file_that_cannot_be_made_is_a_system_error(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        with storage.failing("truncate", under="commitlog"):
            answer = await client.send(body=b"lost")
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "no new file could be made" in answer.remark
        assert (await client.send(body=b"kept")).code == 0
        with storage.failing("pwrite", under="commitlog"):
            assert (await client.send(body=b"lost")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bodies(await client.pull()) == [b"kept"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["pwrite", "truncate"])
async def test_threat_L9_a_disk_that_refuses_is_said_and_reads_go_on(
    autojump_clock: MockClock, operation: str, code: int
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, mapped_file_size_commit_log=4096) as (_, client):
        assert (await client.send(body=b"x" * 3000)).code == 0
        kept = [b"x" * 3000]
        with storage.failing(operation, code=code):
            while (answer := await client.send(body=b"y" * 3000)).code == 0:
                kept.append(b"y" * 3000)  # the next file was made ahead
            assert answer.code in (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR)
            assert len(kept) <= 2
            assert bodies(await client.pull()) == kept
        assert (await client.send(body=b"z" * 3000)).code == 0
        await trio.sleep(3)
        assert bodies(await client.pull()) == [*kept, b"z" * 3000]


async def test_K2_what_is_too_long_is_illegal(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_message_size=1000) as (_, client):
        assert (await client.send(body=bytes(1001))).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.send(properties=f"A\x01{'x' * 33_000}\x02")).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.send(body=bytes(1000), properties=f"A\x01{'x' * 100}\x02")).code == 0


async def test_ST9_the_limit_can_be_changed_while_the_broker_runs(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for limit, code in ((2000, 0), (500, ResponseCode.MESSAGE_ILLEGAL), (2000, 0)):
            body = f"maxMessageSize={limit}".encode()
            assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == 0
            assert (await client.send(body=bytes(1000))).code == code


async def test_K4_a_slave_takes_no_messages(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send(body=b"before")
        broker.config.store.broker_role = BrokerRole.SLAVE
        assert (await client.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bodies(await client.pull()) == [b"before"]


async def test_K2_K4_a_store_that_is_not_writable_refuses(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        broker.store.flags.set(RunningFlag.DISK_FULL)
        assert (await client.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        table = KVTable.decode((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {})).body).table
        assert table["runningFlags"] == "DISK_FULL"
        broker.store.flags.clear(RunningFlag.DISK_FULL)
        assert (await client.send()).code == 0


# --- how long puts took --------------------------------------------------------------------------------


async def runtime(broker: Broker, client: Client) -> dict[str, str]:
    answer: RemotingCommand = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {})
    return KVTable.decode(answer.body).table


async def test_put_times_are_told_a_minute_later(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, flush_interval_commit_log=100_000) as (broker, client):
        for _ in range(97):
            await client.send()
        storage.fault = slow = SlowDisk(autojump_clock, 0.015)
        await client.send()
        await client.send()
        slow.seconds = 0.7
        await client.send()
        slow.seconds = 0
        with storage.failing("pwrite"):
            await client.send()
        now = await runtime(broker, client)
        assert (now["putMessageEntireTimeMax"], now["putMessageFailedTimes"]) == ("700", "1")
        await trio.sleep(60)
        then = await runtime(broker, client)
        assert then["putMessageDistributeTime"].startswith("[<=0ms]:97 [0~10ms]:0 [10~50ms]:2 [50~100ms]:0 ")
        assert "[500ms~1s]:1 " in then["putMessageDistributeTime"]
        assert then["putMessageDistributeTime"].endswith("[10s~]:0 ")
        assert (then["putLatency99"], then["putLatency999"]) == ("15.00", "700.00")


async def test_with_sync_flush_the_time_on_the_disk_counts(autojump_clock: MockClock, monkeypatch) -> None:
    async with broker_and_client(flush_disk_type="SYNC_FLUSH") as (broker, client):
        monkeypatch.setattr(hanging.flusher, "run_blocking", hanging.Hanging(2))
        await client.send()
        assert (await runtime(broker, client))["putMessageEntireTimeMax"] == "2000"


def test_minutes_turn_without_a_tick() -> None:
    now = 100.0
    times = PutTimes(lambda: now)
    assert times.percentile(0.99) == 0.0
    times.note(3, 0.0005)
    times.note(1, 12.0)
    assert times.distribution().startswith("[<=0ms]:0 ")
    now += 60
    assert times.distribution().startswith("[<=0ms]:3 ")
    assert (times.percentile(0.5), times.percentile(0.999)) == (1.0, 10_000.0)
    now += 60
    assert times.distribution().startswith("[<=0ms]:0 ")
    times.note(1, 0)
    now += 500
    assert times.distribution().startswith("[<=0ms]:0 ")
    assert times.longest == 12_000
