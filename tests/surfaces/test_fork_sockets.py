"""Forks while clients and clusters are open: children have none of their sockets, and start afresh."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import rocketpy.sync
from rocketpy import Message, SendStatus
from rocketpy_broker_sim import BlockingLocalCluster
from tests.forking import in_child, tcp_ports
from tests.surfaces.surface import call, entered

if not hasattr(os, "fork") or not Path("/proc/self/fd").exists():
    pytest.skip("there are no forks here, or no way to see what a child has open", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = ("-X", "dev", "-W", "error", "-W", "ignore:This process:DeprecationWarning")
"""Python 3.12 and later warn of every fork of a process with threads."""


def ports_of(cluster):
    addresses = [*cluster.broker_addresses, *cluster.name_server_addresses.split(";")]
    return {int(address.rpartition(":")[2]) for address in addresses}


def links_to(ports):
    """The TCP sockets of this process at either end of connections to these ports."""
    return [found for found in tcp_ports() if ports.intersection(found)]


def connections(cluster):
    return {*cluster.trio_cluster.brokers[0].server.connections}


@contextmanager
def living_child():
    """A child that does nothing, and lives as long as the block."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        yield
    finally:
        os.close(write)
        os.waitpid(child, 0)


# --- sockets -------------------------------------------------------------------------------------------


def test_threat_L12_a_child_has_no_socket_of_ours_and_the_parent_keeps_its_connections(
    surface, cluster, namesrv, topic
):
    ports = ports_of(cluster)

    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            await call(producer.send(Message(topic, b"before")))
            while surface.module is not rocketpy and not producer._inner.client.data_links.all():
                await call(producer.send(Message(topic, b"until it has the data connection too")))
            before, ours = connections(cluster), len(links_to(ports))
            assert ours >= 4, "two that listen, and both ends of one connection at least"
            assert in_child(lambda: links_to(ports)) == "[]"
            assert (await call(producer.send(Message(topic, b"after")))).status is SendStatus.SEND_OK
            assert (connections(cluster), len(links_to(ports))) == (before, ours)

    surface.run(main)


@pytest.mark.waits("looks until the broker has seen what a process closed")
def test_threat_L12_what_the_parent_closes_is_closed_though_a_child_lives(surface, topic):
    with BlockingLocalCluster() as cluster:
        before = connections(cluster)

        async def main():
            async with entered(surface.module.Producer("pg", namesrv=cluster.name_server_addresses)) as producer:
                await call(producer.send(Message(topic, b"x")))
                assert connections(cluster) > before
                child.__enter__()

        child = living_child()
        surface.run(main)
        try:
            deadline = time.monotonic() + 10
            while connections(cluster) != before:
                assert time.monotonic() < deadline, "the broker does not see that the parent has closed its connection"
                time.sleep(0.01)
        finally:
            child.__exit__(None, None, None)


@pytest.mark.parametrize("end", ["kill_broker", "stop_broker"])
def test_threat_L12_a_broker_gets_its_port_again_though_a_child_lives(topic, end):
    with BlockingLocalCluster() as cluster:
        (address,) = cluster.broker_addresses
        with rocketpy.sync.Producer("pg", namesrv=cluster.name_server_addresses) as producer:
            producer.send(Message(topic, b"before"))
            with living_child():
                getattr(cluster, end)(0)
                cluster.start_broker(0)
                assert cluster.broker_addresses == [address]
                assert producer.send(Message(topic, b"after")).status is SendStatus.SEND_OK
        assert len(cluster.messages(topic)) == 2


# --- clients of children -------------------------------------------------------------------------------


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.split()


A_POOL = """
import multiprocessing
import rocketpy.sync
from rocketpy import Message
from rocketpy_broker_sim import BlockingLocalCluster

def work(address):
    with rocketpy.sync.MQClientInstance(namesrv=address) as client:
        with rocketpy.sync.Producer("children", client=client) as producer:
            return [producer.send(Message("T", b"child")).message_id for _ in range(20)], client.client_id

if __name__ == "__main__":
    with BlockingLocalCluster() as cluster:
        address = cluster.name_server_addresses
        with rocketpy.sync.Producer("parent", namesrv=address) as producer:
            producer.send(Message("T", b"parent"))
            futures = [producer.send_soon(Message("T", b"parent")) for _ in range(100)]
            with multiprocessing.get_context("fork").Pool(4) as pool:
                answers = pool.map(work, [address] * 12, chunksize=1)
                pool.close()
                pool.join()
            ids = {message_id for ids, _ in answers for message_id in ids}
            ids |= {future.result().message_id for future in futures}
            producer.send(Message("T", b"parent"))
            print(len(ids), len({m.message_id for m in cluster.messages("T")}), len({client for _, client in answers}))
"""


@pytest.mark.slow
def test_threat_L12_a_pool_of_forked_workers_sends_while_the_parent_waits():
    assert run(A_POOL) == ["340", "342", "12"]


IN_THE_MIDDLE = """
import os, signal, threading
import rocketpy.sync
from rocketpy import Message
from rocketpy_broker_sim import BlockingLocalCluster

stop, failures = threading.Event(), []

def keep(function):
    while not stop.is_set():
        try:
            function()
        except Exception as error:
            failures.append(repr(error))

def once():
    with rocketpy.sync.Producer("others", namesrv=address) as other:
        other.send(Message("T", b"x"))

with BlockingLocalCluster() as cluster:
    cluster.create_topic("T")
    address = cluster.name_server_addresses
    with rocketpy.sync.Producer("parent", namesrv=address) as producer, rocketpy.sync.PushConsumer(
        "readers", namesrv=address
    ) as consumer:
        consumer.subscribe("T", lambda message: None)
        jobs = [
            lambda: producer.send(Message("T", b"x")),
            lambda: producer.send_soon(Message("T", b"x")).result(10),
            once,
        ]
        threads = [threading.Thread(target=keep, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        ends = []
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                once()
                os._exit(0)
            ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for thread in threads:
            thread.join()
        print(*ends, *failures)
"""


@pytest.mark.slow
def test_threat_L12_children_start_clients_whatever_the_parent_was_doing():
    assert run(IN_THE_MIDDLE) == ["0"] * 10


AN_ORDERLY_END = """
import gc, os, sys
import rocketpy.sync
from rocketpy import Message
from rocketpy_broker_sim import BlockingLocalCluster

cluster = BlockingLocalCluster().start()
cluster.create_topic("T")
address = cluster.name_server_addresses
producer = rocketpy.sync.Producer("parent", namesrv=address)
consumer = rocketpy.sync.PushConsumer("readers", namesrv=address)
producer.start()
consumer.subscribe("T", lambda message: None)
consumer.start()
producer.send(Message("T", b"before"))
if os.fork() == 0:
    if "forget" in sys.argv:
        del producer, consumer, cluster
        gc.collect()
    sys.exit(0)  # with all that the interpreter does at its end
status = os.waitstatus_to_exitcode(os.wait()[1])
print(status, producer.send(Message("T", b"after")).status.name)
cluster.wait_consumed("readers", "T")
consumer.close()
producer.close()
cluster.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("forget",)])
def test_threat_L12_a_child_ends_in_order_without_a_word(arguments):
    assert run(AN_ORDERLY_END, *arguments) == ["0", "SEND_OK"]
