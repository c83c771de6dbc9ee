"""Periods, time limits and bounds that are said to be honoured: each is turned, and what it bounds moves with it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.server import RemotingServer
from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.route import RegisterBrokerRequestHeader
from rocketpy.wire.lenient_json import parse_json
from rocketpy_broker_sim.broker.tables.delay_offsets import DelayOffsetTable
from rocketpy_broker_sim.config import namesrv_config
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, broker_and_client, settings
from tests.broker_sim.broker.test_registration import name_servers, opened
from tests.broker_sim.store.helpers import bodies, open_store
from tests.broker_sim.store.test_recovery import filled, flip, mark_unclean
from tests.virtual_time import loop_time


@pytest.mark.parametrize(("millis", "written"), [(200, True), (20_000, False)])
async def test_flush_consumer_offset_interval(autojump_clock: MockClock, millis: int, written: bool) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, flush_consumer_offset_interval=millis) as (_, client):
        await client.send()
        await client.heartbeat("g", "T")
        await trio.sleep(0.1)  # the retry topic of the group is written, and with it whatever else has changed
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == ResponseCode.SUCCESS
        await trio.sleep(1)
        path = "config/consumerOffset.json"
        kept = parse_json(storage.read_bytes(path))["offsetTable"] if storage.exists(path) else {}
        assert (kept.get("T@g") == {"0": 1}) == written


@pytest.mark.parametrize(("millis", "written"), [(200, True), (20_000, False)])
async def test_flush_delay_offset_interval(autojump_clock: MockClock, millis: int, written: bool) -> None:
    storage = MemoryStorage()
    with wall_clock(loop_time(1_000_000)):
        async with broker_and_client(storage=storage, flush_delay_offset_interval=millis) as (broker, client):
            await client.send(properties="DELAY\x011\x02")
            await trio.sleep(3)
            assert broker.store.reads.max_offset("T", 0) == 1
            assert storage.exists("config/delayOffset.json") == written


@pytest.mark.parametrize(("millis", "written"), [(200, True), (20_000, False)])
async def test_flush_interval_consume_queue(autojump_clock: MockClock, millis: int, written: bool) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, flush_interval_consume_queue=millis) as (_, client):
        flushed: list[str] = []
        storage.fault = lambda operation, path, size: flushed.append(path) if operation == "fdatasync" else None
        await client.send()
        await trio.sleep(1)
        assert any(path.startswith("consumequeue/T/") for path in flushed) == written


@pytest.mark.parametrize(("step", "counter"), [(1, 6), (3, 2), (10, 0)])
def test_delay_offset_update_version_step(step: int, counter: int) -> None:
    table = DelayOffsetTable(settings(delay_offset_update_version_step=step), MemoryStorage())
    for offset in range(1, 7):
        table.update(1, offset)
    assert table.data_version.counter == counter


@pytest.mark.parametrize(("size", "following"), [(2000, 100), (16_000, 120)])
async def test_max_filter_message_size(autojump_clock: MockClock, size: int, following: int) -> None:
    """In bytes of queue units, of which one has 20: so many messages a pull may look at to find one that fits."""
    async with broker_and_client(max_filter_message_size=size) as (_, client):
        for _ in range(120):
            await client.send(properties="TAGS\x01other\x02")
        answer = await client.pull(subscription="wanted", suspend_timeout_millis=0)
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert int(answer.ext_fields["nextBeginOffset"]) == following


@pytest.mark.parametrize("bound", [2000, 600_000])
async def test_max_hold_millis(autojump_clock: MockClock, bound: int) -> None:
    async with broker_and_client(max_hold_millis=bound) as (_, client):
        await client.send()
        began = trio.current_time()
        answer = await client.pull(offset=1, sys_flag=SUSPEND | SUBSCRIPTION, suspend_timeout_millis=20_000)
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert trio.current_time() - began == pytest.approx(min(bound, 20_000) / 1000, abs=1)


@pytest.mark.parametrize("millis", [2000, 9000])
async def test_register_broker_timeout_mills(autojump_clock: MockClock, millis: int) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        server.silent = True
        began = trio.current_time()
        async with opened(network, [server.address], register_broker_timeout_mills=millis):
            assert trio.current_time() - began == pytest.approx(millis / 1000, abs=0.5)


@pytest.mark.parametrize(("interval", "least", "most"), [(500, 35, 41), (5000, 3, 5)])
async def test_broker_heartbeat_interval(autojump_clock: MockClock, interval: int, least: int, most: int) -> None:
    network = MemoryNetwork()
    acting = {"enable_slave_acting_master": True, "compatible_with_old_name_srv": False}
    async with name_servers(network) as (server,):
        async with opened(network, [server.address], broker_heartbeat_interval=interval, **acting):
            await trio.sleep(20.1)
            assert least <= server.codes().count(RequestCode.BROKER_HEARTBEAT) <= most


@pytest.mark.parametrize("millis", [2000, 33_000])
async def test_broker_not_active_timeout_millis(autojump_clock: MockClock, millis: int) -> None:
    network = MemoryNetwork()
    changes = {"enable_slave_acting_master": True, "broker_not_active_timeout_millis": millis}
    async with name_servers(network) as (server,), opened(network, [server.address], **changes):
        ((_, _, request), *_) = server.seen
        assert RegisterBrokerRequestHeader.from_ext(request.ext_fields).heartbeat_timeout_millis == millis


@pytest.mark.parametrize(("checks", "left"), [(True, 4), (False, 5)])
def test_check_crc_on_recover(checks: bool, left: int) -> None:
    storage, results = filled()
    mark_unclean(storage)
    flip(storage, results[-1].physical_offset + 90)  # in the body of the last one
    store = open_store(storage, check_crc_on_recover=checks)
    assert store.reads.max_offset("Orders", 1) == left
    assert len(bodies(store)) == 5
    store.close()


@pytest.mark.parametrize("millis", [300, 4000])
async def test_short_polling_time_mills(autojump_clock: MockClock, millis: int) -> None:
    async with broker_and_client(long_polling_enable=False, short_polling_time_mills=millis) as (_, client):
        await client.send()
        began = trio.current_time()
        assert (await client.pull(offset=1, sys_flag=SUSPEND | SUBSCRIPTION)).code == ResponseCode.PULL_NOT_FOUND
        assert trio.current_time() - began == pytest.approx(millis / 1000, abs=0.1)


@pytest.mark.parametrize("count", [3, 7])
async def test_max_transfer_count_on_message_in_memory(autojump_clock: MockClock, count: int) -> None:
    async with broker_and_client(max_transfer_count_on_message_in_memory=count) as (_, client):
        for _ in range(10):
            await client.send()
        assert int((await client.pull()).ext_fields["nextBeginOffset"]) == count


@pytest.mark.parametrize("seconds", [0, 7])
async def test_shutdown_wait_time_seconds_of_a_name_server(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    graces: list[float] = []
    stop = RemotingServer.stop

    async def noted(server: RemotingServer, grace: float) -> None:
        graces.append(grace)
        await stop(server, grace)

    monkeypatch.setattr(RemotingServer, "stop", noted)
    config = namesrv_config(listen_port=0, shutdown_wait_time_seconds=seconds)
    async with open_name_server(config, network=MemoryNetwork(), storage=MemoryStorage()):
        pass
    assert graces == [seconds]
