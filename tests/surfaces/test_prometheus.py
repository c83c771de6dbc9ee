"""The collector of prometheus-client, on every surface: what it shows is what `statistics` says, in every state."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest
from prometheus_client import CollectorRegistry, generate_latest

import rocketpy
import rocketpy.aio
import rocketpy.sync
from rocketpy import ConfigError, ConsumeFromWhere, Message
from rocketpy.prometheus import ClientCollector
from tests.broker_sim.metrics.kit import Scrape
from tests.surfaces.surface import call, entered
from tests.surfaces.test_lite_figures import eventually

pytestmark = pytest.mark.waits("waits for threads and loops of other kinds")

NOBODY = "127.0.0.1:1"
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def scraped(*collectors: ClientCollector) -> Scrape:
    """What prometheus gets, from a thread of its own as its HTTP server has."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    with ThreadPoolExecutor(1) as pool:
        return Scrape(pool.submit(generate_latest, registry).result().decode())


def test_producers_and_consumers_are_shown_before_during_and_after(surface, namesrv, topic):
    taken = []

    def listener(message):
        taken.append(message)

    async def listening(message):
        listener(message)

    producer = surface.module.Producer("pg", namesrv=namesrv)
    group = f"cg-{topic}"
    consumer = surface.module.PushConsumer(group, namesrv=namesrv, consume_from_where=FIRST)
    collector = ClientCollector(producer, consumer)
    seen = {"before": scraped(collector)}

    async def main():
        consumer.subscribe(topic, listening if surface.name == "asyncio" else listener)
        async with entered(producer):
            for number in range(7):
                await call(producer.send(Message(topic, b"x" * 10, keys=[str(number)])))
            async with entered(consumer):
                await eventually(surface, lambda: consumer.statistics().consumed == 7)
                seen["during"] = scraped(collector)

    surface.run(main)
    seen["after"] = scraped(collector)
    assert len(taken) == 7

    before = seen["before"]
    assert list(before.all("rocketmq_client_up")) == [0, 0]
    assert before.one("rocketmq_client_up", role="push_consumer", group=group) == 0
    assert before.one("rocketmq_client_sent_messages_total", group="pg") == 0
    during, after = seen["during"], seen["after"]
    assert list(during.all("rocketmq_client_up")) == [1, 1]
    assert list(after.all("rocketmq_client_up")) == [0, 0]
    for found in (during, after):
        assert found.one("rocketmq_client_sent_messages_total", group="pg") == 7
        assert found.one("rocketmq_client_sent_bytes_total", group="pg") == 70
        assert found.one("rocketmq_client_topic_sent_messages_total", group="pg", topic=topic) == 7
        assert found.one("rocketmq_client_broker_sent_messages_total", group="pg", broker="broker-a") == 7
        assert found.one("rocketmq_client_consumed_messages_total", group=group) == 7
        assert found.one("rocketmq_client_broker_pulled_messages_total", group=group, broker="broker-a") == 7
    (client_id,) = {dict(of)["clientId"] for of in during.found["rocketmq_client_sent_messages_total"]}
    assert "@" in client_id
    low, high = (during.one("rocketmq_client_send_seconds", group="pg", quantile=each) for each in ("0.5", "1"))
    assert 0 < low <= high < 10
    assert during.one("rocketmq_client_consume_ok_msg_tps", group=group, topic=topic) > 0
    assert during.one("rocketmq_client_consumer_pull_tps", group=group, topic=topic) > 0


def test_other_consumers_and_a_shared_client_are_shown(surface, namesrv, topic):
    async def main():
        client = surface.module.MQClientInstance(namesrv=namesrv)
        async with entered(client):
            producer = surface.module.Producer("pg", client=client)
            lite = surface.module.LitePullConsumer(f"lite-{topic}", client=client, consume_from_where=FIRST)
            pull = surface.module.PullConsumer(f"pull-{topic}", client=client)
            async with entered(producer), entered(pull):
                for _ in range(3):
                    await call(producer.send(Message(topic, b"x")))
                async with entered(lite):
                    lite.subscribe(topic)
                    taken = []
                    while len(taken) < 3:
                        taken += await call(lite.poll(timeout=10))
                    for queue in await call(pull.fetch_message_queues(topic)):
                        await call(pull.pull(queue, 0))
                    collector = ClientCollector()
                    for role in (client, producer, lite, pull):
                        collector.add(role)
                    found = scraped(collector)
                    assert found.one("rocketmq_client_handed_out_messages_total", group=f"lite-{topic}") == 3
                    assert found.one("rocketmq_client_pulled_messages_total", group=f"pull-{topic}") == 3
                    assert found.one("rocketmq_client_pulled_messages_total", group=f"lite-{topic}") == 3
                    assert found.one("rocketmq_client_connections") == client.statistics().connections > 0
                    assert found.one("rocketmq_client_routed_topics") >= 1
                    assert sum(found.all("rocketmq_client_peer_connections")) == client.statistics().connections
                    assert {dict(of)["role"]: value for of, value in found.found["rocketmq_client_up"].items()} == {
                        "client": 1,
                        "producer": 1,
                        "lite_pull_consumer": 1,
                        "pull_consumer": 1,
                    }
                    collector.remove(pull)
                    collector.remove(pull)
                    assert not list(scraped(collector).all("rocketmq_client_up", role="pull_consumer"))

    surface.run(main)


def test_what_has_no_statistics_is_refused(surface):
    producer = surface.module.Producer("pg", namesrv=NOBODY)
    for mistake in (surface.module.Producer, None, 3, type("Other", (), {"statistics": lambda self: None})()):
        with pytest.raises(ConfigError, match="expected a producer, a consumer or an MQClientInstance"):
            ClientCollector(mistake)
    with pytest.raises(ConfigError, match="is shown already: add it once"):
        ClientCollector(producer, producer)
    assert repr(ClientCollector(producer)) == "<ClientCollector of 1>"


def test_a_registry_takes_one_collector_and_knows_its_names():
    registry = CollectorRegistry()
    registry.register(ClientCollector())
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(ClientCollector())
    assert generate_latest(registry) == b""


def test_statistics_that_fail_cost_the_others_nothing(caplog):
    first, second = (rocketpy.sync.Producer(group, namesrv=NOBODY) for group in ("p1", "p2"))

    def broken():
        raise ZeroDivisionError("broken")

    collector = ClientCollector(first, second)
    first.statistics = broken
    found = scraped(collector)
    assert not list(found.all("rocketmq_client_sent_messages_total", group="p1"))
    assert found.one("rocketmq_client_sent_messages_total", group="p2") == 0
    assert found.one("rocketmq_client_up", role="producer", group="p1") == 0
    assert "has no statistics: broken" in caplog.text


def test_threat_A5_labels_are_escaped_and_cut():
    producer = rocketpy.sync.Producer("pg", namesrv=NOBODY)
    empty = producer.statistics()
    topics = {'a"} 1\nforged 2': empty, "\x1b[2J": empty, "y" * 1000: empty}
    producer.statistics = lambda: attrs.evolve(empty, topics=topics)
    found = scraped(ClientCollector(producer)).found["rocketmq_client_topic_sent_messages_total"]
    assert sorted(dict(labels)["topic"] for labels in found) == ["\\x1b[2J", 'a"} 1\\nforged 2', "y" * 256]


@pytest.mark.slow
def test_nothing_else_imports_prometheus_client_and_without_it_the_error_says_what_to_install():
    code = (
        "import sys, rocketpy, rocketpy.sync, rocketpy.aio, rocketpy_broker_sim\n"
        "for module in (rocketpy, rocketpy.sync, rocketpy.aio, rocketpy_broker_sim):\n"
        "    for name in module.__all__: getattr(module, name)\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('prometheus_client', 'h11')]\n"
        "sys.modules['prometheus_client'] = None\n"
        "try: import rocketpy.prometheus\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "install rocketpy with its extra, rocketpy[prometheus]" in done.stdout
