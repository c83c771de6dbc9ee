"""The settings and the state of a broker, asked for and changed by request."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.route import KVTable
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.admin import GetBrokerConfigResponseHeader
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.config import BROKER_UPDATES, parse_properties
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.broker.kit import Client, broker_and_client
from tests.broker_sim.broker.kit import settings as kit_settings
from tests.virtual_time import loop_time


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(1_800_000_000_000)):
        yield


async def update(client: Client, text: str) -> RemotingCommand:
    return await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


async def read(client: Client) -> dict[str, str]:
    return parse_properties((await client.ask(RequestCode.GET_BROKER_CONFIG)).body.decode())


# --- settings --------------------------------------------------------------------------------------------


async def test_A9_settings_are_asked_for_and_changed(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        settings = await read(client)
        assert settings["brokerName"] == "broker-a"
        assert settings["flushDiskType"] == "ASYNC_FLUSH"
        assert list(settings) == sorted(settings)
        assert set(BROKER_UPDATES) <= set(settings)
        assert (settings["filterServerNums"], settings["useTLS"]) == ("0", "false")  # tools look for them
        assert int(settings["clientCallbackExecutorThreads"]) == os.cpu_count()  # exportMetrics shows it as cpuNum
        answer = await update(client, "autoCreateTopicEnable=false\nwaitTimeMillsInSendQueue=777\n")
        assert answer.code == 0
        settings = await read(client)
        assert (settings["autoCreateTopicEnable"], settings["waitTimeMillsInSendQueue"]) == ("false", "777")
        assert (await client.send()).code == ResponseCode.TOPIC_NOT_EXIST
        assert broker.config.wait_time_mills_in_send_queue == 777


async def test_A9_the_version_of_the_settings_rises(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):

        async def version() -> int:
            answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
            header = GetBrokerConfigResponseHeader.from_ext(answer.ext_fields)
            return DataVersion.decode(header.version.encode()).counter

        assert await version() == 0
        await update(client, "traceOn=false")
        await update(client, "traceOn=x")
        assert await version() == 1


async def test_A9_what_is_kept_in_another_form_follows(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        assert (await client.send()).ext_fields["TRACE_ON"] == "true"
        await update(client, "traceOn=false")
        assert (await client.send()).ext_fields["TRACE_ON"] == "false"


async def test_A9_a_permission_of_the_broker_is_told_to_name_servers(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        told: list[list[str]] = []
        broker.topics.subscribe(told.append)
        counter = broker.topics.data_version.counter
        await update(client, "brokerPermission=4")
        assert told == [[]]
        assert broker.topics.data_version.counter == counter + 1
        await update(client, "brokerPermission=2")
        await client.send()
        assert (await client.pull()).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    "text",
    [
        "storePathRootDir=/tmp/x",
        "brokerConfigPath=x",
        "rocketmqHome=/tmp",
        "configBlackList=x",
        "namesrvAddr=evil:9876",
        "listenPort=1",
        "traceOn=false\nstorePathCommitLog=/x",
        "BROKERCONFIGPATH=x",
        "filterServerNums=1",
    ],
)
async def test_A9_threat_A2_paths_and_everything_not_listed_are_refused_and_nothing_changes(
    autojump_clock: MockClock, text: str
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        before, files = await read(client), storage.list("config")
        assert (await update(client, text)).code == ResponseCode.NO_PERMISSION
        assert await read(client) == before
        assert storage.list("config") == files


@pytest.mark.parametrize("body", [b"\xff\xfe", b"traceOn=maybe", b"a" * 100_000, b"defaultTopicQueueNums=99999999"])
async def test_A9_settings_that_cannot_be_are_refused(autojump_clock: MockClock, body: bytes) -> None:
    async with broker_and_client() as (broker, client):
        before = repr(broker.config)
        answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        assert answer.code in (ResponseCode.INVALID_PARAMETER, ResponseCode.NO_PERMISSION)
        assert repr(broker.config) == before
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG)).code == 0


async def test_threat_A5_what_is_logged_of_a_peer_is_escaped(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with broker_and_client() as (_, client):
            await update(client, "regionId=a\\r\\nFAKE LOG LINE")
            await update(client, "traceOn=true")
            await client.heartbeat("g", "T", client_id="c\r\nFAKE \x1b[31m")
    assert caplog.records
    assert not any("\n" in record.getMessage() or "\x1b" in record.getMessage() for record in caplog.records)


# --- state -----------------------------------------------------------------------------------------------


async def test_A8_the_state_is_a_table_of_text(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        empty = broker.runtime_info()
        assert empty["earliestMessageTimeStamp"] == "-1"
        await client.send(properties="DELAY\x011\x02")
        await client.send()
        await trio.sleep(3)
        answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = KVTable.decode(answer.body).table
        assert table["brokerVersionDesc"] == "V5_3_3"
        assert table["brokerActive"] == "true"
        assert table["scheduleMessageOffset_1"] == "1,1"
        assert int(table["commitLogMaxOffset"]) == broker.store.written_position > 0
        assert int(table["earliestMessageTimeStamp"]) == broker.store.reads.store_time("SCHEDULE_TOPIC_XXXX", 0, 0)
        assert table["sendThreadPoolQueueSize"] == "0"
        assert table["sendThreadPoolQueueHeadWaitTimeMills"] == "0"
        assert table["sendThreadPoolQueueCapacity"] == "10000"
        assert table["dispatchBehindBytes"] == "0"
        assert table["runtime"].startswith("[ 0 days, 0 hours, 0 minutes, ")


async def test_A8_the_state_says_how_full_the_disk_of_the_log_is_under_its_path_too(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    log = tmp_path / "elsewhere"
    for storage, path in (
        (RealStorage(tmp_path / "store"), tmp_path / "store" / "commitlog"),
        (RealStorage(tmp_path / "root", mounts={"commitlog": str(log)}), log),
    ):
        async with open_broker(kit_settings(), network=MemoryNetwork(), storage=storage) as broker:
            state = broker.runtime_info()
            by_path = {key: value for key, value in state.items() if key.startswith("commitLogDiskRatio_")}
            assert by_path == {f"commitLogDiskRatio_{path}": state["commitLogDiskRatio"]}
            assert 0 < float(state["commitLogDiskRatio"]) <= 1


async def test_A8_the_state_says_what_comes_and_goes(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):

        async def state() -> dict[str, str]:
            return KVTable.decode((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table

        await trio.sleep(100)
        for _ in range(30):
            await client.send(body=b"x" * 100)
            await client.pull()
            await trio.sleep(1)
        await client.pull(offset=30)
        busy = await state()
        assert busy["putMessageTimesTotal"] == busy["msgPutTotalTodayNow"] == "30"
        assert busy["putMessageSizeTotal"] == busy["commitLogMaxOffset"]
        assert float(busy["putMessageAverageSize"]) == int(busy["commitLogMaxOffset"]) / 30
        last_ten, last_minute, last_ten_minutes = map(float, busy["putTps"].split())
        assert last_ten == pytest.approx(1.0, abs=0.11)
        assert last_minute == pytest.approx(0.5, abs=0.02)
        assert last_ten_minutes == pytest.approx(0.05)
        assert busy["getFoundTps"].split()[2] == "0.05"
        assert float(busy["getMissTps"].split()[1]) == pytest.approx(1 / 60)
        assert float(busy["getTransferredTps"].split()[2]) == pytest.approx(sum(range(1, 31)) / 600)
        assert busy["pageCacheLockTimeMills"] == "0"
        await trio.sleep(610)
        idle = broker.runtime_info()
        assert {idle[key] for key in ("putTps", "getTotalTps", "getTransferredTps")} == {"0.0 0.0 0.0"}
        assert idle["msgPutTotalTodayNow"] == "30"


async def test_A8_what_a_start_finds_in_the_log_was_not_put_since_the_start(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send(body=b"x" * 1000)
        before = broker.store.written_position
    async with broker_and_client(storage=storage) as (broker, client):
        assert broker.runtime_info()["putMessageSizeTotal"] == "0"
        await client.send(body=b"x" * 100)
        size = broker.store.written_position - before
        assert broker.runtime_info()["putMessageSizeTotal"] == str(size)
        assert broker.runtime_info()["putMessageAverageSize"] == str(float(size))


async def test_R6_codes_that_nobody_knows_are_not_supported(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for code in (7777, 9999, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, RequestCode.ADD_BROKER, -1):
            answer = await client.ask(code)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert answer.remark == f" request type {int(code)} not supported"
        assert (await client.send()).code == 0
