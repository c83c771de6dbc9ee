"""LocalCluster: ready when it says so, servers that stop and come back, and what it refuses."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import ConfigError, RocketMQError, StoreError, TransportError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import TcpNetwork
from rocketpy.wire.bodies.route import TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.hosts import parse_address
from rocketpy_broker_sim import LocalCluster
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import bodies, client_of


async def send(cluster: LocalCluster, broker: int = 0, body: bytes = b"x") -> None:
    async with client_of(cluster.network, cluster.brokers[broker].address) as client:
        assert (await client.send(body=body)).code == 0


async def pulled(cluster: LocalCluster, broker: int = 0) -> list[bytes]:
    async with client_of(cluster.network, cluster.brokers[broker].address) as client:
        return bodies(await client.pull())


async def route(cluster: LocalCluster, name_server: int = 0, topic: str = "TBW102") -> set[str]:
    """The brokers that a name server tells to a client; empty when it knows none."""
    async with client_of(cluster.network, cluster.name_servers[name_server].address) as client:
        answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return set()
        assert answer.code == 0
        return {broker.broker_name for broker in TopicRouteData.decode(answer.body).broker_datas}


# --- ready ---------------------------------------------------------------------------------------------


async def test_LC1_every_broker_is_known_to_every_name_server_when_it_starts(autojump_clock: MockClock) -> None:
    async with LocalCluster(brokers=3, name_servers=2, network="memory") as cluster:
        assert isinstance(cluster.network, MemoryNetwork)
        assert len(cluster.name_server_addresses.split(";")) == 2
        for number in range(2):
            assert await route(cluster, number) == {"broker-a", "broker-b", "broker-c"}
        for number in range(3):
            await send(cluster, number, str(number).encode())
            assert await pulled(cluster, number) == [str(number).encode()]


async def test_LC1_over_tcp(tmp_path: Path) -> None:
    for expected in ([b"one"], [b"one", b"two"]):
        async with LocalCluster(data=tmp_path) as cluster:
            assert isinstance(cluster.network, TcpNetwork)
            assert parse_address(cluster.name_server_addresses)[0] == "127.0.0.1"
            await send(cluster, body=expected[-1])
            assert await pulled(cluster) == expected
    assert (tmp_path / "broker-a" / "commitlog").is_dir()
    assert not (tmp_path / "broker-a" / "abort").exists()


async def test_records_carry_a_checksum_over_the_whole_record_and_files_are_small(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        await send(cluster)
        storage = cluster.storages[0]
        log = storage.read_bytes("commitlog/" + storage.list("commitlog")[0])
        assert len(log) == 16 * 1024 * 1024
        assert b"__CRC32#" in log


@pytest.mark.slow
async def test_two_hours_of_virtual_time(autojump_clock: MockClock) -> None:
    async with LocalCluster(name_servers=2, network="memory") as cluster:
        await send(cluster)
        await trio.sleep(2 * 3600)
        for number in range(2):
            assert await route(cluster, number, "T") == {"broker-a"}
        assert await pulled(cluster) == [b"x"]


async def test_settings_reach_whom_they_are_for(autojump_clock: MockClock) -> None:
    settings = {"auto_create_topic_enable": False, "broker_name": "b", "delete_topic_with_broker_registration": True}
    async with LocalCluster(network="memory", server_channel_max_idle_time_seconds=7, **settings) as cluster:
        broker, name_server = cluster.brokers[0], cluster.name_servers[0]
        assert broker.config.broker_name == "b"
        assert name_server.config.delete_topic_with_broker_registration
        assert {server.config.server.server_channel_max_idle_time_seconds for server in (broker, name_server)} == {7}
        async with client_of(cluster.network, broker.address) as client:
            assert (await client.send()).code == ResponseCode.TOPIC_NOT_EXIST


# --- stop, start, restart ------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["memory", "tcp"])
async def test_LC1_a_broker_stops_and_comes_back_with_its_data_and_port(network: str) -> None:
    async with LocalCluster(brokers=2, network=network) as cluster:
        await send(cluster, 0)
        await send(cluster, 1)
        address = cluster.brokers[0].address
        await cluster.stop_broker(0)
        assert await route(cluster) == {"broker-b"}
        with pytest.raises(OSError, match=r"111|refused"):
            await cluster.network.open_stream(*parse_address(address))
        await cluster.start_broker(0)
        assert cluster.brokers[0].address == address
        assert await route(cluster) == {"broker-a", "broker-b"}
        assert await pulled(cluster, 0) == [b"x"]


@pytest.mark.waits("what was gone is dialled again after a while, in real time")
@pytest.mark.parametrize("network", ["memory", "tcp"])
async def test_LC1_a_name_server_stops_and_is_told_everything_again(network: str) -> None:
    async with LocalCluster(brokers=2, name_servers=2, network=network) as cluster:
        await send(cluster, 0)
        addresses = cluster.name_server_addresses
        await cluster.stop_name_server(1)
        with pytest.raises(OSError, match=r"111|refused"):
            await cluster.network.open_stream(*parse_address(addresses.split(";")[1]))
        await send(cluster, 1, b"meanwhile")
        assert await route(cluster, 0) == {"broker-a", "broker-b"}
        await cluster.start_name_server(1)
        assert cluster.name_server_addresses == addresses
        assert await route(cluster, 1) == {"broker-a", "broker-b"}


async def test_LC1_everything_restarts_in_turn_under_load(autojump_clock: MockClock) -> None:
    acknowledged: list[bytes] = []

    async def produce(cluster: LocalCluster) -> None:
        while True:
            try:
                async with client_of(cluster.network, cluster.brokers[0].address) as client:
                    while True:
                        body = str(len(acknowledged)).encode()
                        answer = await client.send(body=body)
                        if answer.code == 0:
                            acknowledged.append(body)
                        await trio.sleep(0.01)
            except (RocketMQError, OSError):
                await trio.sleep(0.01)

    async with LocalCluster(network="memory") as cluster:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, cluster)
            for _ in range(3):
                await trio.sleep(0.1)
                await cluster.restart_name_server(0)
                await cluster.restart_broker(0)
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert len(acknowledged) > 20
        assert cluster.brokers[0].store.reads.max_offset("T", 0) >= len(acknowledged)
        assert await route(cluster) == {"broker-a"}


async def test_key_values_outlive_their_name_server(autojump_clock: MockClock) -> None:
    pair = {"namespace": "n", "key": "k", "value": "v"}
    async with LocalCluster(network="memory") as cluster:
        async with client_of(cluster.network, cluster.name_server_addresses) as client:
            assert (await client.ask(RequestCode.PUT_KV_CONFIG, pair)).code == 0
        await cluster.restart_name_server(0)
        async with client_of(cluster.network, cluster.name_server_addresses) as client:
            answer = await client.ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
            assert answer.ext_fields["value"] == "v"


async def test_what_runs_cannot_be_started_and_what_stands_cannot_be_stopped(autojump_clock: MockClock) -> None:
    cluster = LocalCluster(network="memory")
    with pytest.raises(ConfigError, match="not been started"):
        _ = cluster.name_server_addresses
    with pytest.raises(ConfigError, match="is not running"):
        await cluster.start_broker(0)
    async with cluster:
        with pytest.raises(ConfigError, match=r"broker 0 \(broker-a\) is already running"):
            await cluster.start_broker(0)
        with pytest.raises(ConfigError, match="is already running"):
            await cluster.__aenter__()
        await cluster.stop_broker(0)
        with pytest.raises(ConfigError, match=r"broker 0 \(broker-a\) is not running"):
            await cluster.stop_broker(0)


async def test_a_cluster_can_be_started_again_with_what_it_holds(autojump_clock: MockClock) -> None:
    cluster = LocalCluster(network="memory")
    async with cluster:
        await send(cluster)
    async with cluster:
        assert await pulled(cluster) == [b"x"]


async def test_a_disk_that_fails_at_the_stop_of_a_broker_leaves_the_others_alone(autojump_clock: MockClock) -> None:
    async with LocalCluster(brokers=2, network="memory") as cluster:
        await send(cluster, 0)
        storage = cluster.storages[0]
        assert isinstance(storage, MemoryStorage)
        with storage.failing("fdatasync", code=errno.EIO):
            await cluster.stop_broker(0)
        assert storage.exists("abort")
        await send(cluster, 1)
        await cluster.start_broker(0)
        assert await pulled(cluster, 0) == [b"x"]


async def test_an_error_of_the_body_comes_out_as_it_is(autojump_clock: MockClock) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with LocalCluster(network="memory"):
            raise KeyError("mine")


async def test_a_cancelled_cluster_writes_what_it_took(autojump_clock: MockClock, tmp_path: Path) -> None:
    with trio.move_on_after(5) as scope:
        async with LocalCluster(network="memory", data=tmp_path) as cluster:
            await send(cluster, body=b"kept")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not (tmp_path / "broker-a" / "abort").exists()
    async with LocalCluster(network="memory", data=tmp_path) as cluster:
        assert await pulled(cluster) == [b"kept"]


# --- refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"brokers": 0}, "brokers must be at least 1, not 0"),
        ({"brokers": -1}, "at least 1"),
        ({"brokers": "2"}, "brokers must be a whole number, not '2'"),
        ({"brokers": True}, "whole number"),
        ({"name_servers": 0}, "name_servers must be at least 1"),
        ({"name_servers": None}, "whole number"),
        ({"network": "ipx"}, "ipx"),
        ({"network": None}, "network must be .* not None"),
        ({"data": 5}, "the path of a directory, not 5"),
        ({"data": ""}, "the path of a directory, not ''"),
        ({"data": "~nobody-of-that-name/data"}, "home directory"),
        ({"insecure": "no"}, "True or False, not 'no'"),
        ({"broker_name": "../elsewhere"}, "broker_name"),
        ({"broker_name": ""}, "broker_name is blank"),
        ({"broker_cluster_name": "a cluster"}, "broker_cluster_name"),
        ({"auto_create_topics": True}, "auto_create_topics"),
        ({"listen_port": 10911}, "free port"),
        ({"store_path_root_dir": "/tmp"}, "data="),
        ({"brokers": 2, "broker_name": "b"}, "one broker"),
        ({"flush_disk_type": "SOMETIMES"}, "flushDiskType"),
        ({"scan_not_active_broker_interval": "often"}, "scanNotActiveBrokerInterval"),
    ],
)
def test_bad_arguments_are_told_before_anything_runs(arguments: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LocalCluster(**arguments)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "broker.example"])
def test_threat_A3_other_machines_are_let_in_only_on_request(host: str) -> None:
    with pytest.raises(ConfigError, match="insecure"):
        LocalCluster(bind_address=host)
    assert LocalCluster(bind_address=host, insecure=True)
    assert LocalCluster(bind_address="::1")
    assert LocalCluster(bind_address="localhost")


async def test_threat_A3_a_cluster_listens_on_this_machine_only() -> None:
    async with LocalCluster() as cluster:
        for server in (*cluster.brokers, *cluster.name_servers):
            assert parse_address(server.address)[0] == "127.0.0.1"


async def test_threat_L11_two_clusters_on_one_directory(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with LocalCluster(network="memory", data=tmp_path) as first:
        with pytest.raises(StoreError, match="in use by another broker"):
            async with LocalCluster(network="memory", data=tmp_path):
                raise AssertionError("it cannot have started")
        await send(first)


async def test_a_port_that_was_taken_meanwhile(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        address = cluster.brokers[0].address
        await cluster.stop_broker(0)
        listeners = await cluster.network.listen(*parse_address(address))
        with pytest.raises(TransportError, match=str(parse_address(address)[1])):
            await cluster.start_broker(0)
        for listener in listeners:
            await listener.aclose()
        await cluster.start_broker(0)
        await send(cluster)


async def test_an_unknown_broker_setting_is_not_taken_for_one_of_a_name_server() -> None:
    with pytest.raises(ConfigError, match="no setting 'brokername'"):
        LocalCluster(brokername="b")


# --- loading -------------------------------------------------------------------------------------------


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter holds after some code."""
    program = f"{code}\nimport sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@pytest.mark.slow
def test_one_part_does_not_load_the_other() -> None:
    bare = loaded("import rocketpy_broker_sim")
    assert not any(name.startswith("rocketpy_broker_sim.") for name in bare)
    name_server = loaded("from rocketpy_broker_sim import open_name_server")
    assert not any(name.startswith(("rocketpy_broker_sim.broker", "rocketpy_broker_sim.store")) for name in name_server)
    broker = loaded("from rocketpy_broker_sim import open_broker")
    assert not any(name.startswith("rocketpy_broker_sim.namesrv") for name in broker)
    assert "asyncio" not in loaded("from rocketpy_broker_sim import BlockingLocalCluster, WaitTimeoutError")


def test_a_name_that_is_not_there() -> None:
    import rocketpy_broker_sim

    assert "LocalCluster" in dir(rocketpy_broker_sim)
    with pytest.raises(AttributeError, match="no attribute 'RemoteCluster'"):
        _ = rocketpy_broker_sim.RemoteCluster


async def test_the_index_of_an_embedded_broker_is_small() -> None:
    async with LocalCluster(network="memory") as cluster:
        storage = cluster.brokers[0].storing.storage
        assert storage.list("index") == []
        async with client_of(cluster.network, cluster.brokers[0].address) as client:
            assert (await client.send(body=b"x", properties="KEYS\x01k\x02")).code == 0
            asked = {"topic": "T", "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(1 << 62)}
            assert bodies(await client.ask(RequestCode.QUERY_MESSAGE, asked)) == [b"x"]
        (name,) = storage.list("index")
        assert storage.open(f"index/{name}").size() < 500_000
