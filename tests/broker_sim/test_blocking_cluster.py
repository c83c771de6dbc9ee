"""BlockingLocalCluster: the same for code without a loop, beside blocking clients in one background thread."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import rocketpy.sync
from rocketpy import ConfigError, Message, RocketMQError
from rocketpy.wire.hosts import parse_address
from rocketpy_broker_sim import BlockingLocalCluster


def send(cluster: BlockingLocalCluster, count: int = 8) -> set[str]:
    """Send a message to every queue; returns the brokers that took them."""
    with rocketpy.sync.Producer("orders", namesrv=cluster.name_server_addresses) as producer:
        return {producer.send(Message("Orders", b"one coffee")).queue.broker_name for _ in range(count)}


def listens(address: str) -> bool:
    try:
        socket.create_connection(parse_address(address), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_LC1_a_block(tmp_path: Path) -> None:
    with BlockingLocalCluster(brokers=2, name_servers=2, data=tmp_path) as cluster:
        assert send(cluster, 16) == {"broker-a", "broker-b"}
        addresses = [*cluster.broker_addresses, *cluster.name_server_addresses.split(";")]
        assert len(set(addresses)) == 4
        assert all(map(listens, addresses))
    assert not any(map(listens, addresses))
    assert not (tmp_path / "broker-a" / "abort").exists()


@pytest.mark.waits("what was gone is dialled again after a while, in real time")
def test_LC1_start_stop_and_restart_of_each_server() -> None:
    cluster = BlockingLocalCluster(brokers=2)
    cluster.close()
    cluster.start()
    try:
        with pytest.raises(ConfigError, match="is already running"):
            cluster.start()
        assert send(cluster, 16) == {"broker-a", "broker-b"}
        cluster.stop_broker(0)
        assert not listens(cluster.broker_addresses[0])
        assert send(cluster) == {"broker-b"}
        cluster.start_broker(0)
        cluster.stop_name_server(0)
        assert not listens(cluster.name_server_addresses)
        cluster.start_name_server(0)
        cluster.restart_name_server(0)
        cluster.restart_broker(1)
        assert send(cluster, 16) == {"broker-a", "broker-b"}
    finally:
        cluster.close()
    cluster.close()


def test_a_killed_broker_on_a_disk(tmp_path: Path) -> None:
    with BlockingLocalCluster(data=tmp_path) as cluster:
        send(cluster, 20)
        cluster.kill_broker(0)
        assert not listens(cluster.broker_addresses[0])
        assert (tmp_path / "broker-a" / "abort").exists()
        cluster.start_broker(0)
        assert len(cluster.messages("Orders")) == 20
        send(cluster)
        cluster.kill_broker(0)
    with BlockingLocalCluster(data=tmp_path) as cluster:
        assert len(cluster.messages("Orders")) == 28
    assert not (tmp_path / "broker-a" / "abort").exists()


@pytest.mark.slow
@pytest.mark.waits("producers wait for a while before they dial a broker again that was gone")
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_nothing_acknowledged_is_lost_when_brokers_die_and_connections_are_cut(tmp_path: Path, where: str) -> None:
    acknowledged: set[str] = set()
    over, more = threading.Event(), threading.Semaphore(0)

    def work(producer: rocketpy.sync.Producer) -> None:
        while not over.is_set():
            with suppress(RocketMQError):  # what is not acknowledged may be lost
                acknowledged.add(producer.send(Message("Orders", b"x")).message_id)
                more.release()

    with BlockingLocalCluster(brokers=2, data=tmp_path if where == "disk" else None) as cluster:
        cluster.create_topic("Orders")
        with rocketpy.sync.Producer("orders", namesrv=cluster.name_server_addresses) as producer:
            threads = [threading.Thread(target=work, args=(producer,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            try:
                for number in (0, 1, 0):
                    before = len(acknowledged)
                    while len(acknowledged) < before + 20:
                        assert more.acquire(timeout=30)
                    cluster.cut_connections()
                    cluster.kill_broker(number)
                    cluster.cut_connections(1 - number)
                    cluster.start_broker(number)
            finally:
                over.set()
                for thread in threads:
                    thread.join(30)
        assert acknowledged <= {message.message_id for message in cluster.messages("Orders")}
    assert len(acknowledged) >= 60


def test_an_error_of_the_block_comes_out_and_everything_stops() -> None:
    with pytest.raises(KeyError, match="mine"):
        with BlockingLocalCluster() as cluster:
            raise KeyError("mine")
    assert not listens(cluster.broker_addresses[0])


IN_A_FRESH_PROCESS = """
import rocketpy.sync
from rocketpy import Message
from rocketpy_broker_sim import BlockingLocalCluster
with BlockingLocalCluster() as cluster:
    with rocketpy.sync.Producer("orders", namesrv=cluster.name_server_addresses) as producer:
        print(producer.send(Message("Orders", b"one coffee")).status.name)
"""


@pytest.mark.slow
def test_a_process_that_does_nothing_else_ends_without_a_word() -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", IN_A_FRESH_PROCESS]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("SEND_OK\n", "", 0)


def test_it_is_for_tcp() -> None:
    with pytest.raises(ConfigError, match="TCP"):
        BlockingLocalCluster(network="memory")


def test_a_child_of_a_fork_leaves_the_cluster_of_its_parent_alone() -> None:
    with BlockingLocalCluster() as cluster:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            cluster.close()
            os._exit(0 if send(cluster) == {"broker-a"} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert send(cluster) == {"broker-a"}
