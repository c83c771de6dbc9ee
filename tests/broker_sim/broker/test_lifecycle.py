"""Start, stop, restart, and starts that fail."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import ConfigError, RocketMQError, StoreError, TransportError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.lenient_json import parse_json
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.config import namesrv_config
from rocketpy_broker_sim.namesrv.server import open_name_server
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, bodies, broker_and_client, client_of, settings
from tests.client.fakes import FakeServer


async def test_LC1_a_restarted_broker_has_everything(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        for n in range(3):
            await client.send(body=str(n).encode(), properties="TAGS\x01a\x02")
        await client.heartbeat("g", "T")
        await client.pull(offset=2, sys_flag=SUBSCRIPTION | 1, commit_offset=2)
    assert not storage.exists("abort")
    async with broker_and_client(storage=storage) as (broker, client):
        assert bodies(await client.pull()) == [b"0", b"1", b"2"]
        assert broker.topics.get("T").write_queue_nums == 4
        assert broker.groups.get("g") is not None
        assert broker.offsets.query("g", "T", 0) == 2
        assert (await client.send()).ext_fields["queueOffset"] == "3"


async def test_LC1_a_broker_that_was_killed_has_what_it_acknowledged(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        assert (await client.send("T", b"kept")).code == 0
        left = storage.clone()
    # Killed at once: the settings of the topic were not written yet, its message was.
    for name in left.list("config"):
        left.unlink(f"config/{name}")
    async with broker_and_client(storage=left) as (broker, client):
        assert bodies(await client.pull()) == [b"kept"]
        assert broker.topics.get("T") is not None


async def test_LC1_groups_ahead_of_what_survived_are_taken_back_before_the_first_send(
    autojump_clock: MockClock,
) -> None:
    storage, name = MemoryStorage(), "config/consumerOffset.json"
    async with broker_and_client(storage=storage) as (_, client):
        for _ in range(3):
            await client.send()
        left = storage.clone()
    left.write_bytes_atomic(name, b'{"offsetTable":{"T@g":{0:9,1:0},"T@h":{0:2}}}')
    async with broker_and_client(storage=left) as (broker, _):
        assert broker.offsets.query("g", "T", 0) == 3
        assert broker.offsets.query("h", "T", 0) == 2
        # On the disk by now: after another crash the messages that take the lost ones' places must not be passed over.
        assert parse_json(left.read_bytes(name))["offsetTable"] == {"T@g": {"0": 3, "1": 0}, "T@h": {"0": 2}}


async def test_groups_of_a_topic_that_was_lost_begin_where_it_begins_again(autojump_clock: MockClock) -> None:
    """Without an offset they would begin at the end of a topic of that name, and pass over its first messages."""
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send("Lost")
        left = storage.clone()
    left.open(f"commitlog/{0:020d}").clear(0)
    left.write_bytes_atomic("config/topics.json", b"{}")
    left.write_bytes_atomic("config/consumerOffset.json", b'{"offsetTable":{"Lost@g":{0:2,1:2}}}')
    async with broker_and_client(storage=left) as (broker, client):
        assert broker.topics.get("Lost") is None
        assert "Lost" not in broker.store.reads.topics()
        assert broker.offsets.queues("g", "Lost") == {0: 0, 1: 0}
        await client.send("Lost")
        assert broker.offsets.query("g", "Lost", 0) == 0


async def test_LC1_a_stop_under_load_answers_what_it_took_and_ends_in_time(autojump_clock: MockClock) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    sent: list[bytes] = []
    acknowledged: list[bytes] = []

    async def produce(address: str, number: int) -> None:
        async with client_of(network, address) as client:
            try:
                for n in range(10_000):
                    body = f"{number}-{n}".encode()
                    sent.append(body)
                    answer = await client.send(body=body)
                    assert answer.code == 0
                    acknowledged.append(body)
            except RocketMQError:
                return

    async def wait(address: str) -> None:
        async with client_of(network, address) as client:
            answer = await client.pull("T", 3, 0, sys_flag=SUBSCRIPTION | SUSPEND)
            assert answer.code == ResponseCode.PULL_NOT_FOUND

    async with trio.open_nursery() as nursery:
        async with open_broker(settings(), network=network, storage=storage) as broker:
            async with client_of(network, broker.address) as client:
                await client.send(queue_id=1)
            nursery.start_soon(wait, broker.address)
            for number in range(20):
                nursery.start_soon(produce, broker.address, number)
            while len(acknowledged) < 500:
                await trio.lowlevel.checkpoint()
            stopping = trio.current_time()
        assert trio.current_time() - stopping < 1
    assert not storage.exists("abort")
    async with broker_and_client(storage=storage) as (broker, client):
        stored: list[bytes] = []
        while (answer := await client.pull(offset=len(stored))).code == 0:
            stored += bodies(answer)
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))
    assert set(stored) <= set(sent)


async def test_LC1_stopping_costs_a_cancelled_broker_nothing(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    with trio.move_on_after(5) as scope:
        async with broker_and_client(storage=storage) as (_, client):
            await client.send(body=b"kept")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not storage.exists("abort")
    async with broker_and_client(storage=storage) as (_, client):
        assert bodies(await client.pull()) == [b"kept"]


async def hangs() -> None:
    await trio.sleep_forever()


async def fails() -> None:
    raise StoreError("the disk is gone")


@pytest.mark.parametrize(("close", "seconds"), [(hangs, 30), (fails, 0)])
async def test_LC1_a_part_that_does_not_close_leaves_the_directory_free_and_nothing_is_lost(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    close: Callable[[], Awaitable[None]],
    seconds: float,
) -> None:
    storage, network = MemoryStorage(), MemoryNetwork()
    with suppress(StoreError):
        async with open_broker(settings(), network=network, storage=storage) as broker:
            async with client_of(network, broker.address) as client:
                await client.send(body=b"kept")
            monkeypatch.setattr(broker.saving, "close", close)
            stopping = trio.current_time()
    assert seconds <= trio.current_time() - stopping < seconds + 2
    assert storage.exists("abort")
    async with broker_and_client(storage=storage) as (_, client):
        assert bodies(await client.pull()) == [b"kept"]


async def test_LC1_broker_and_name_server_come_and_go(autojump_clock: MockClock) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    name_server = namesrv_config(listen_port=9876)
    for _ in range(3):
        async with open_name_server(name_server, network=network) as names:
            for _ in range(2):
                opened = open_broker(
                    settings(listen_port=10911), network=network, storage=storage, name_servers=[names.address]
                )
                async with opened as broker:
                    assert broker.registration.registered_with == [names.address]
                    async with client_of(network, broker.address) as client:
                        assert (await client.send()).code == 0
    async with broker_and_client(storage=storage) as (broker, _):
        assert broker.store.reads.max_offset("T", 0) == 6


# --- starts that fail ----------------------------------------------------------------------------------


async def test_a_port_that_is_taken_is_told_and_nothing_is_left(autojump_clock: MockClock) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    async with open_broker(settings(listen_port=10911), network=network, storage=MemoryStorage()):
        with pytest.raises(TransportError, match="10911"):
            async with open_broker(settings(listen_port=10911), network=network, storage=storage):
                raise AssertionError("it cannot have started")
    async with open_broker(settings(listen_port=10911), network=network, storage=storage) as broker:
        assert broker.address.endswith(":10911")


async def test_threat_L11_a_second_broker_on_the_same_store_is_refused(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        with pytest.raises(StoreError, match="in use"):
            async with open_broker(settings(), network=MemoryNetwork(), storage=storage):
                raise AssertionError("it cannot have started")
        assert (await client.send()).code == 0


async def test_a_directory_that_cannot_be_written_is_told(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()

    def read_only(operation: str, path: str, size: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    storage.fault = read_only
    with pytest.raises(StoreError, match="read-only"):
        async with open_broker(settings(), network=MemoryNetwork(), storage=storage):
            raise AssertionError("it cannot have started")
    storage.fault = None
    async with broker_and_client(storage=storage) as (_, client):
        assert (await client.send()).code == 0


async def test_a_damaged_table_stops_the_start_and_gives_the_store_back(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    storage.write_bytes_atomic("config/topics.json", b"{")
    with pytest.raises(StoreError, match=r"topics\.json"):
        async with open_broker(settings(), network=MemoryNetwork(), storage=storage):
            raise AssertionError("it cannot have started")
    assert storage.read_bytes("config/topics.json") == b"{"
    storage.unlink("config/topics.json")
    async with broker_and_client(storage=storage) as (_, client):
        assert (await client.send()).code == 0


async def test_a_bad_name_server_address_is_told_before_anything_is_touched(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    with pytest.raises(ConfigError, match="nowhere"):
        async with open_broker(settings(namesrv_addr="nowhere"), network=MemoryNetwork(), storage=storage):
            raise AssertionError("it cannot have started")
    assert storage.list("") == []


async def test_a_real_directory(tmp_path: Path) -> None:
    """Without a mock clock: flushes run in threads, the files are those of the system."""
    network = MemoryNetwork()
    for expected in ([], [b"x"]):
        async with open_broker(settings(), network=network, storage=RealStorage(tmp_path)) as broker:
            async with client_of(network, broker.address) as client:
                if expected:
                    assert bodies(await client.pull()) == expected
                else:
                    await client.send()
    assert not (tmp_path / "abort").exists()
    assert (tmp_path / "config" / "topics.json").exists()


async def test_the_address_that_clients_are_told(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    for bind, told, expected in (
        ("127.0.0.1", "", "127.0.0.1"),
        ("0.0.0.0", "", "127.0.0.1"),
        ("0.0.0.0", "10.1.2.3", "10.1.2.3"),
        ("127.0.0.1", "broker.example", "broker.example"),
    ):
        config = settings(bind_address=bind, broker_ip1=told)
        async with open_broker(config, network=network, storage=MemoryStorage()) as broker:
            assert broker.address.rpartition(":")[0] == expected
            assert any(broker.identity.store_host)
            await wait_all_tasks_blocked()


async def test_LC1_a_cancelled_broker_says_goodbye_and_keeps_what_it_took(autojump_clock: MockClock) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    asked = FakeServer({code: lambda _, request: request.answer() for code in (103, 104, 322)})
    async with asked.open(network) as name_server:
        with trio.CancelScope() as scope:
            async with open_broker(
                settings(), network=network, storage=storage, name_servers=[name_server.address]
            ) as broker:
                async with client_of(network, broker.address) as client:
                    await client.send(body=b"kept")
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert asked.codes()[-1] == RequestCode.UNREGISTER_BROKER
    assert not storage.exists("abort")
    async with broker_and_client(storage=storage) as (_, client):
        assert bodies(await client.pull()) == [b"kept"]


async def test_LC1_a_cancelled_broker_answers_what_it_holds_and_ends_in_time(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    codes: list[int] = []

    async def wait(address: str) -> None:
        async with client_of(network, address) as client:
            codes.append((await client.pull("T", 3, 0, sys_flag=SUBSCRIPTION | SUSPEND)).code)

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with open_broker(settings(), network=network, storage=MemoryStorage()) as broker:
                async with client_of(network, broker.address) as client:
                    await client.send(queue_id=1)
                nursery.start_soon(wait, broker.address)
                await trio.sleep(1)
                scope.cancel()
                await trio.sleep_forever()
        assert trio.current_time() < 2
    assert codes == [ResponseCode.PULL_NOT_FOUND]


async def test_LC1_a_name_server_and_its_broker_are_cancelled_together(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    caplog.set_level("INFO")
    with trio.CancelScope() as scope:
        async with (
            open_name_server(network=network) as server,
            open_broker(settings(), network=network, storage=MemoryStorage(), name_servers=[server.address]),
        ):
            assert server.routes.brokers
            scope.cancel()
            await trio.sleep_forever()
    assert not server.routes.brokers
    assert "was not notified that the broker stops" not in caplog.text
