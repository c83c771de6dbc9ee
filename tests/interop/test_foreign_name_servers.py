"""Our master at Apache's name servers and Apache's at ours: how they register, stay registered, and go."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message
from tests.interop import lines, probe
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.inbox import Inbox
from tests.interop.ours import our_broker, our_name_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.apache import Apache, Cluster
    from tests.interop.mixed import Mixed
    from tests.interop.servers import Server

pytestmark = pytest.mark.interop

BROKER_HEARTBEAT = 904
QUICK_LOOKS = {"scanNotActiveBrokerInterval": 300}
"""At a name server that looks for silent brokers every 5 s otherwise."""
ACTING_MASTER = {"enableSlaveActingMaster": True, "brokerHeartbeatInterval": 100, "brokerNotActiveTimeoutMillis": 2_000}
"""A broker that a name server takes for dead after 2 s without a word, while it registers every 30 s."""


def wait_gone(name_server: str, broker: str, timeout: float = 20.0) -> None:
    probe.eventually(lambda: broker not in probe.broker_addresses(name_server) or None, f"end of {broker}", timeout)


def test_our_master_serves_clients_of_both_kinds_at_apaches_name_server(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, inbox, namesrv = fresh_name("Foreign"), fresh_name("foreign"), Inbox(), apache_cluster.namesrv
    with our_broker(namesrv, name="broker-guest") as broker:
        probe.create_topic(broker.address, topic, queues=2)
        assert probe.wait_route(namesrv, topic)["brokerDatas"][0]["brokerAddrs"] == {"0": broker.address}
        consumer = rocketpy.sync.PushConsumer(
            group, namesrv=namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        consumer.subscribe(topic, inbox.take)
        with consumer, java_push_consumer(apache, namesrv, f"{group}-java", topic) as java:
            assert len(consumer.wait_assigned(20)) == 2
            java_produce(apache, namesrv, topic, 10)
            with rocketpy.sync.Producer("foreign", namesrv=namesrv, send_timeout=10.0) as producer:
                for number in range(10):
                    producer.send(Message(topic, b"ours-%d" % number))
            got = inbox.wait_here(20)
            assert {each["msgId"] for each in java.wait_messages(20)} == {message.message_id for message in got}
            java.finish()
    assert {message.broker_name for message in got} == {"broker-guest"}
    wait_gone(namesrv, "broker-guest", 5.0)
    assert probe.route(namesrv, topic) is None


def test_our_master_registers_with_packed_topics(
    apache_cluster: Cluster, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, both = fresh_name("Packed"), (apache_cluster.namesrv, our_servers.namesrv)
    create = {"topic": topic, "readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    with our_broker(";".join(both), name="broker-packing", overrides={"compressedRegister": True}) as broker:
        fields = {**create, "defaultTopic": "TBW102", "attributes": "+message.type=FIFO"}
        assert probe.call(broker.address, probe.UPDATE_AND_CREATE_TOPIC, fields).code == probe.SUCCESS
        for name_server in both:
            (queues,) = probe.wait_route(name_server, topic)["queueDatas"]
            assert (queues["brokerName"], queues["readQueueNums"], queues["writeQueueNums"]) == (broker.name, 3, 2)


@pytest.mark.one_line("4.9.7", "what a name server has lost asks nothing of its line")
def test_our_master_comes_back_when_apaches_name_server_does(apache: Apache) -> None:
    """Its connection is gone, and all that the name server knew."""
    with ExitStack() as stack:
        first = stack.enter_context(apache.name_server())
        port = int(first.address.rpartition(":")[2])
        stack.enter_context(our_broker(first.address, name="broker-patient"))
        first.process.kill()
        stack.enter_context(apache.name_server(overrides={"listenPort": port}))
        probe.wait_registered(first.address, "broker-patient", 40.0)


def test_a_master_of_apaches_that_stops_or_is_killed_leaves_our_name_server(apache: Apache) -> None:
    with our_name_server() as name_server:
        with apache.broker(name_server.address, name="broker-stopping") as stopping:
            stopping.process.terminate()
            wait_gone(name_server.address, "broker-stopping")
        with apache.broker(name_server.address, name="broker-killed") as killed:
            killed.process.kill()
            wait_gone(name_server.address, "broker-killed")


# --- signs of life -------------------------------------------------------------------------------------


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Stop a process where it is: its connections stay, and nobody hears of it."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@pytest.mark.one_line("5.3.3", "4.x waits two minutes for every broker, whatever that one says")
@pytest.mark.parametrize("old_query", [True, False], ids=["QUERY_DATA_VERSION", "BROKER_HEARTBEAT"])
def test_our_masters_short_heartbeats_keep_it_registered(apache: Apache, old_query: bool) -> None:
    values = {**ACTING_MASTER, "compatibleWithOldNameSrv": old_query}
    with ExitStack() as stack:
        theirs = stack.enter_context(apache.name_server(overrides=QUICK_LOOKS)).address
        ours = stack.enter_context(our_name_server(overrides=QUICK_LOOKS)).address
        alive, silent = (
            stack.enter_context(our_broker(f"{theirs};{ours}", name=name, overrides=values))
            for name in ("broker-alive", "broker-silent")
        )
        with frozen(silent):
            for name_server in (theirs, ours):
                wait_gone(name_server, silent.name)
                assert set(probe.broker_addresses(name_server)) == {alive.name}
        for name_server in (theirs, ours):
            probe.wait_registered(name_server, silent.name, 40.0)


@pytest.mark.one_line("4.9.7", "5.x knows the heartbeat")
def test_a_name_server_that_does_not_know_short_heartbeats_is_not_disturbed(
    apache: Apache, mixed: Mixed, fresh_name: Callable[[str], str]
) -> None:
    assert BROKER_HEARTBEAT in lines.of(apache.version).unanswered
    assert not probe.is_answered(mixed.apache_namesrv, BROKER_HEARTBEAT)
    values = {**ACTING_MASTER, "brokerHeartbeatInterval": 10, "compatibleWithOldNameSrv": False}
    with our_broker(mixed.apache_namesrv, name="broker-beating", overrides=values) as broker:
        for _ in range(3):
            topic = fresh_name("Beating")
            probe.create_topic(broker.address, topic)
            assert probe.wait_route(mixed.apache_namesrv, topic)["brokerDatas"][0]["brokerName"] == broker.name
    wait_gone(mixed.apache_namesrv, "broker-beating", 5.0)
