"""The metrics of a broker and a name server compared with what was sent and consumed; their health; one real socket."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy import ConsumeFromWhere, LitePullConsumer, Message, Producer, PushConsumer
from rocketpy.errors import ConfigError, TransportError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import TcpNetwork
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy_broker_sim import LocalCluster, open_broker, open_name_server
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.metrics.runtime import RUNTIME_METRICS
from rocketpy_broker_sim.broker.metrics.whole import BROKER_METRICS
from rocketpy_broker_sim.config import broker_config, namesrv_config
from rocketpy_broker_sim.metrics.metric import Kind, Metric
from rocketpy_broker_sim.namesrv.metrics import NAMESRV_METRICS
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.running_flags import RunningFlag
from tests.broker_sim.embedded import reach
from tests.broker_sim.metrics.kit import Scrape, fetch, scrape
from tests.pace import slowness

GOLDEN = "tests/golden/exporter_metrics.txt"
NOT_OURS = {
    # The exporter asks clients for these through the broker; rocketpy.prometheus shows them where they are measured.
    *(f"rocketmq_client_{name}" for name in ("consume_fail_msg_count", "consume_fail_msg_tps", "consume_ok_msg_tps")),
    *(f"rocketmq_client_{name}" for name in ("consume_rt", "consumer_pull_rt", "consumer_pull_tps")),
    "rocketmq_broker_commitlog_diff",  # between a master and its replicas, of which there are none
    "rocketmq_group_dlqdiff",  # the exporter never fills these three
    "rocketmq_group_consume_tps",
    "rocketmq_group_consume_total_offset",
}


@asynccontextmanager
async def cluster_of(**settings: Any) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(network="memory", metrics_port=0, **settings) as cluster:
        yield cluster


async def of_broker(cluster: LocalCluster) -> Scrape:
    return await scrape(cluster.network, cluster.brokers[0].metrics_address)


async def nothing(message: object) -> None:
    pass


# --- names ---------------------------------------------------------------------------------------------


def test_the_metrics_of_the_exporter_have_its_names() -> None:
    with open(GOLDEN, encoding="utf-8") as file:
        names = set(file.read().split())
    ours = {metric.name for metric in BROKER_METRICS}
    assert names - ours == NOT_OURS
    assert len(names & ours) == len(names) - len(NOT_OURS)
    assert {metric.name for metric in RUNTIME_METRICS} <= names


@pytest.mark.parametrize("metrics", [BROKER_METRICS, NAMESRV_METRICS])
def test_names_follow_the_conventions_of_prometheus(metrics: Sequence[Metric]) -> None:
    with open(GOLDEN, encoding="utf-8") as file:
        irregular = set(file.read().split())
    names = [metric.name for metric in metrics]
    assert len(names) == len(set(names))
    own = [metric for metric in metrics if metric.name not in irregular]
    assert not [metric.name for metric in own if (metric.kind is Kind.COUNTER) != metric.name.endswith("_total")]
    assert not [metric.name for metric in metrics if not metric.help or metric.help.endswith(".")]


# --- numbers -------------------------------------------------------------------------------------------


async def test_what_was_sent_and_consumed_is_what_is_shown(autojump_clock: MockClock) -> None:
    async with cluster_of() as cluster:
        await cluster.create_topic("Orders", queues=2)
        async with Producer("shop", **reach(cluster)) as producer:
            for number in range(10):
                await producer.send(Message("Orders", b"x" * 100, sharding_key=str(number)))
            async with PushConsumer(
                "billing", **reach(cluster), consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            ) as consumer:
                consumer.subscribe("Orders", nothing)
                await cluster.wait_consumed("billing", "Orders")
                await trio.sleep(20)
                found = await of_broker(cluster)
                check_while_consuming(found, cluster.brokers[0])
            for _ in range(5):
                await producer.send(Message("Orders", b"late"))
            found = await of_broker(cluster)
    labels = {"topic": "Orders", "group": "billing"}
    assert found.one("rocketmq_producer_offset", topic="Orders") == 15
    assert found.one("rocketmq_consumer_offset", **labels) == 10
    assert found.one("rocketmq_group_diff", **labels) == 5
    assert sum(found.all("rocketmq_consumer_queue_lag_messages", **labels)) == 5
    assert sum(found.all("rocketmq_consumer_queue_offset", **labels)) == 10
    assert not list(found.all("rocketmq_group_count", group="billing"))


def check_while_consuming(found: Scrape, broker: Broker) -> None:
    labels = {"topic": "Orders", "group": "billing"}
    assert found.one("rocketmq_messages_put_total", cluster="DefaultCluster", broker="broker-a") == 10
    assert found.one("rocketmq_messages_got_total") == 10
    assert found.one("rocketmq_producer_offset", topic="Orders") == 10
    assert sum(found.all("rocketmq_queue_messages_total", topic="Orders")) == 10
    assert found.one("rocketmq_consumer_offset", **labels) == 10
    assert found.one("rocketmq_group_diff", countOfOnlineConsumers=1, msgModel=1, **labels) == 0
    assert found.one("rocketmq_group_get_latency_by_storetime", **labels) == 0
    assert (found.one("rocketmq_group_count", group="billing"), found.one("rocketmq_producer_count", group="shop")) == (
        1,
        1,
    )
    for name in ("rocketmq_broker_tps", "rocketmq_broker_qps"):
        assert 0 < found.one(name, brokerIP=broker.address) <= 1
    assert 0 < found.one("rocketmq_producer_tps", topic="Orders") <= 1
    assert found.one("rocketmq_producer_message_size", topic="Orders") > 100 * found.one(
        "rocketmq_producer_tps", topic="Orders"
    )
    assert 0 < found.one("rocketmq_consumer_tps", **labels) <= 1
    assert found.one("rocketmq_consumer_message_size", **labels) > 100 * found.one("rocketmq_consumer_tps", **labels)
    assert found.one("rocketmq_brokeruntime_putmessage_times_total", brokerIP=broker.address) == 10
    assert found.one("rocketmq_brokeruntime_commitlog_maxoffset") == broker.store.written_position
    assert found.one("rocketmq_log_bytes_total") == broker.store.written_position
    assert found.one("rocketmq_held_pulls") == len(broker.waiters) > 0
    assert found.one("rocketmq_client_connections", role="consumer") == 1
    assert broker.server is not None
    assert found.one("rocketmq_connections") == len(broker.server.connections) > 0
    assert found.one("rocketmq_lane_requests_total", lane="send") == 10
    assert "rocketmq_metrics_incomplete" not in found.found


async def test_lag_has_an_age_and_retries_have_metrics_of_their_own(autojump_clock: MockClock) -> None:
    async with cluster_of() as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", **reach(cluster)) as producer:
            await producer.send(Message("Orders", b"first"))
            async with LitePullConsumer(
                "slow", **reach(cluster), consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            ) as consumer:
                consumer.subscribe("Orders")
                assert await consumer.poll(timeout=30)
                await consumer.commit()
            await producer.send(Message("Orders", b"second"))
            await trio.sleep(60)
            await producer.send(Message("Orders", b"third"))
        broker = cluster.brokers[0]
        for topic in ("%RETRY%slow", "%DLQ%slow"):
            broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
        found = await of_broker(cluster)
    assert found.one("rocketmq_group_diff", group="slow", topic="Orders", countOfOnlineConsumers=0) == 2
    age = found.one("rocketmq_group_get_latency_by_storetime", group="slow", topic="Orders")
    assert 60_000 <= age < 61_000
    assert found.one("rocketmq_topic_retry_offset", topic="%RETRY%slow") == 0
    assert found.one("rocketmq_topic_dlq_offset", group="slow") == 0
    assert not list(found.all("rocketmq_producer_offset", topic="%RETRY%slow"))


async def test_every_metric_is_declared_and_every_declared_one_is_shown(autojump_clock: MockClock) -> None:
    async with cluster_of() as cluster:
        broker = await of_broker(cluster)
        name_server = await scrape(cluster.network, cluster.name_servers[0].metrics_address)
    for found, metrics in ((broker, BROKER_METRICS), (name_server, NAMESRV_METRICS)):
        shown = {line.split()[2] for line in found.text.splitlines() if line.startswith("# TYPE ")}
        # In memory there is no disk, and so nothing of its capacity.
        assert {metric.name for metric in metrics} - shown <= {
            "rocketmq_brokeruntime_commitlogdir_capacity_total",
            "rocketmq_brokeruntime_commitlogdir_capacity_free",
        }
        assert shown <= {metric.name for metric in metrics}


@pytest.mark.slow
@pytest.mark.waits("measures processor time, which a mock clock makes up")
async def test_thousands_of_topics_hold_nobody_up() -> None:
    async with cluster_of(metrics_otel_cardinality_limit=5000) as cluster:
        topics = [TopicConfig(topic_name=f"t{n}", read_queue_nums=8, write_queue_nums=8) for n in range(6000)]
        cluster.brokers[0].topics.put_all(topics)
        await trio.sleep(1)  # the name server hears of them
        turns: list[float] = []

        async def watch() -> None:
            while True:
                began = time.thread_time()
                await trio.lowlevel.checkpoint()
                turns.append(time.thread_time() - began)

        pace = slowness()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            answer = await fetch(cluster.network, cluster.brokers[0].metrics_address)
            nursery.cancel_scope.cancel()
    found = Scrape(answer.body.decode())
    assert len(list(found.all("rocketmq_producer_offset"))) == 5000
    assert found.one("rocketmq_metrics_incomplete", metric="rocketmq_producer_offset", reason="limit") == 1
    assert found.one("rocketmq_topics") > 6000
    # One turn may have a garbage collection in it, and the requests of others; a page made at once would be a long one.
    assert len(turns) > 20
    assert sorted(turns)[-2] < 0.02 * max(1.0, pace)


# --- the name server -----------------------------------------------------------------------------------


async def test_a_name_server_shows_brokers_topics_and_requests(autojump_clock: MockClock) -> None:
    async with cluster_of(brokers=2) as cluster:
        async with Producer("shop", **reach(cluster)) as producer:
            await producer.send(Message("Orders", b"x"))
        found = await scrape(cluster.network, cluster.name_servers[0].metrics_address)
        topics = len(cluster.name_servers[0].routes.queues)
    assert found.one("rocketmq_namesrv_brokers", cluster="DefaultCluster") == 2
    assert found.one("rocketmq_namesrv_topics") == topics
    assert found.one("rocketmq_namesrv_requests_total", request="REGISTER_BROKER") >= 2
    assert found.one("rocketmq_namesrv_refused_requests_total", request="GET_ROUTEINFO_BY_TOPIC") >= 1
    assert len(list(found.all("rocketmq_namesrv_broker_silent_seconds", brokerId=0))) == 2
    assert found.one("rocketmq_namesrv_connections") >= 2


async def test_codes_that_peers_make_up_share_one_counter(autojump_clock: MockClock) -> None:
    from tests.broker_sim.broker.kit import client_of

    async with cluster_of() as cluster:
        async with client_of(cluster.network, cluster.name_servers[0].address) as client:
            for code in range(10_000, 10_020):
                await client.ask(code, {})
        found = await scrape(cluster.network, cluster.name_servers[0].metrics_address)
    assert found.one("rocketmq_namesrv_requests_total", request="other") == 20
    assert found.one("rocketmq_namesrv_refused_requests_total", request="other") == 20


# --- health --------------------------------------------------------------------------------------------


async def health(cluster: LocalCluster) -> tuple[int, str]:
    answer = await fetch(cluster.network, cluster.brokers[0].metrics_address, "/healthz")
    return answer.status, answer.body.decode()


async def test_a_full_disk_and_a_lost_name_server_are_said(autojump_clock: MockClock) -> None:
    async with cluster_of() as cluster:
        assert await health(cluster) == (200, "ok\n")
        flags = cluster.brokers[0].store.flags
        flags.set(RunningFlag.DISK_FULL)
        assert await health(cluster) == (503, "the disk is full: the store is marked DISK_FULL\n")
        assert (await of_broker(cluster)).one("rocketmq_healthy") == 0
        flags.clear(RunningFlag.DISK_FULL)
        flags.set(RunningFlag.QUEUE_ERROR)
        assert (await health(cluster))[0] == 503
        flags.clear(RunningFlag.QUEUE_ERROR)
        await cluster.stop_name_server(0)
        status, text = await health(cluster)
        assert (status, "registered with none of its name servers: 127.0.0.1:" in text) == (503, True)
        await cluster.start_name_server(0)
        assert await health(cluster) == (200, "ok\n")


async def test_a_broker_that_stops_says_so_until_its_end(autojump_clock: MockClock) -> None:
    network, answers = MemoryNetwork(), []
    config = broker_config(metrics_exporter_type="PROM", metrics_prom_exporter_port=0)
    async with open_broker(config, network=network, storage=MemoryStorage()) as broker:
        address, leave = broker.metrics_address, broker.port.leave
        assert (await fetch(network, address, "/healthz")).status == 200

        async def leave_slowly() -> None:
            answers.append(await fetch(network, address, "/healthz"))
            await leave()

        broker.port.leave = leave_slowly  # type: ignore[method-assign]
    assert [(answer.status, answer.body) for answer in answers] == [(503, b"the broker shuts down\n")]
    with pytest.raises(OSError, match="nobody listens"):
        await fetch(network, address, "/healthz")


async def test_a_name_server_that_waits_for_brokers_is_not_ready(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    config = namesrv_config(
        metrics_exporter_type="PROM", metrics_prom_exporter_port=0, need_wait_for_service=True, listen_port=0
    )
    async with open_name_server(config, network=network) as server:
        answer = await fetch(network, server.metrics_address, "/healthz")
        assert (answer.status, b"waits for brokers to register" in answer.body) == (503, True)
        await trio.sleep(46)
        assert (await fetch(network, server.metrics_address, "/healthz")).status == 200


# --- starting ------------------------------------------------------------------------------------------


async def test_over_tcp_each_server_has_a_port_of_its_own_and_keeps_it(tmp_path: object) -> None:
    async with LocalCluster(metrics_port=0) as cluster:
        addresses = cluster.metrics_addresses
        assert len(set(addresses)) == 2
        assert all(address.startswith("127.0.0.1:") for address in addresses)
        for address in addresses:
            assert (await fetch(TcpNetwork(), address, "/healthz")).status == 200
            assert (await scrape(TcpNetwork(), address)).found
        await cluster.restart_broker(0)
        assert cluster.metrics_addresses == addresses
        assert (await fetch(TcpNetwork(), addresses[0], "/healthz")).status == 200


async def test_ports_that_follow_each_other_and_what_is_refused(autojump_clock: MockClock) -> None:
    async with LocalCluster(brokers=2, network="memory", metrics_port=7000) as cluster:
        assert cluster.metrics_addresses == ["127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002"]
        with pytest.raises(TransportError, match=r"no metrics: cannot listen on .*:7001"):
            async with LocalCluster(network=cluster.network, metrics_port=7000):
                pass
    async with LocalCluster(network="memory") as cluster:
        assert (cluster.metrics_addresses, cluster.brokers[0].metrics_address) == ([], "")
    refused: dict[str, Any] = {
        "whole number": {"metrics_port": "7000"},
        "also for the last server": {"metrics_port": 65_535},
        "metrics_port= shows the metrics": {"metrics_exporter_type": "PROM"},
        "open to other machines": {"metrics_port": 0, "metrics_prom_exporter_host": "0.0.0.0"},
    }
    for words, settings in refused.items():
        with pytest.raises(ConfigError, match=words):
            LocalCluster(**settings)


async def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from rocketpy_broker_sim.metrics import extra

    monkeypatch.setattr(extra, "find_spec", lambda name: None)
    words = "needs h11 and prometheus-client: install rocketpy with its extra, rocketpy\\[prometheus\\]"
    with pytest.raises(ConfigError, match=words):
        LocalCluster(metrics_port=0)
    config = broker_config(metrics_exporter_type="PROM")
    with pytest.raises(ConfigError, match=words):
        async with open_broker(config, storage=MemoryStorage()):
            pass
    with pytest.raises(ConfigError, match=words):
        async with open_name_server(namesrv_config(metrics_exporter_type="PROM")):
            pass
