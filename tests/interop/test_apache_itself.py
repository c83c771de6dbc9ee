"""Apache's servers with Apache's clients: if these fail, the harness is at fault, not our packages."""

from __future__ import annotations

import base64
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.interop import probe, servers
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.failure import InteropError
from tests.interop.ports import port_block
from tests.interop.process import running_reports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import Event, JavaAdmin

pytestmark = pytest.mark.interop


def body(message: Event) -> str:
    return base64.b64decode(message["body"]).decode()


def test_a_java_producer_and_consumer_exchange_100_messages(
    apache: Apache, apache_cluster: Cluster, apache_admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Itself"), fresh_name("itself-group")
    apache_cluster.create_topic(topic, queues=4)
    with java_push_consumer(apache, apache_cluster.namesrv, group, topic) as consumer:
        assert len(consumer.share[topic]) == 4
        sent = java_produce(
            apache, apache_cluster.namesrv, topic, 100, keys="key-%d", tags="red,green", properties="shop=north"
        )
        messages = consumer.wait_messages(100)
        assert next(iter(apache_admin.run("consumers", group=group).values()))["language"] == "JAVA"
        last = consumer.finish()[-1]
    assert last == {"event": "stopped", "received": 100}
    assert [result["status"] for result in sent.results] == ["SEND_OK"] * 100
    assert {message["msgId"] for message in messages} == {result["msgId"] for result in sent.results}
    by_key = {message["keys"]: message for message in messages}
    assert {key: body(message) for key, message in by_key.items()} == {f"key-{n}": f"body-{n}" for n in range(100)}
    assert by_key["key-3"]["tags"] == "green"
    assert by_key["key-3"]["properties"]["shop"] == "north"
    offsets = apache_admin.run("consumer_offsets", group=group, topic=topic)
    assert sum(queue["consumer"] for queue in offsets.values()) == 100


@pytest.mark.one_line("4.9.7", "asks the driver; on our servers it sends in every mode on both lines")
@pytest.mark.parametrize("mode", ["async", "batch", "oneway"])
def test_the_producer_sends_in_every_mode(
    apache: Apache,
    apache_cluster: Cluster,
    apache_admin: JavaAdmin,
    fresh_name: Callable[[str], str],
    mode: str,
) -> None:
    topic = fresh_name(f"Mode-{mode}")
    apache_cluster.create_topic(topic, queues=1)
    java_produce(apache, apache_cluster.namesrv, topic, 25, mode=mode, batch_size=10, body_size=64)
    stored = probe.eventually(
        lambda: apache_admin.run("topic_offsets", topic=topic)["broker-a:0"]["max"] == 25 or None, "25 messages", 20.0
    )
    assert stored


@pytest.mark.one_line("4.9.7", "asks the harness: drivers of both lines share a JVM in the same way")
def test_a_driver_that_breaks_down_says_why_and_others_go_on(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, namesrv = fresh_name("Broken"), apache_cluster.namesrv
    apache_cluster.create_topic(topic, queues=1)
    with java_push_consumer(apache, namesrv, fresh_name("broken-group"), topic) as consumer:
        with pytest.raises(InteropError, match=r"broke down(?s:.*)no such mode: nonsense"):
            java_produce(apache, namesrv, topic, 1, mode="nonsense")
        java_produce(apache, namesrv, topic, 1)
        assert len(consumer.wait_messages(1)) == 1


def test_a_refused_message_comes_back_through_the_retry_topic(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Refused"), fresh_name("refusing-group")
    apache_cluster.create_topic(topic, queues=1)
    with java_push_consumer(apache, apache_cluster.namesrv, group, topic, fail_first=1, retry_level=1) as consumer:
        java_produce(apache, apache_cluster.namesrv, topic, 2)
        messages = consumer.wait_messages(4)
        consumer.finish()
    tries = sorted((body(each), each["reconsumeTimes"], each["accepted"]) for each in messages)
    assert tries == [("body-0", 0, False), ("body-0", 1, True), ("body-1", 0, False), ("body-1", 1, True)]


def test_the_admin_creates_lists_routes_and_deletes_a_topic(
    apache_cluster: Cluster, apache_admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Made")
    assert apache_admin.run("create_topic", topic=topic, queues=3) == ["broker-a"]
    found = probe.wait_route(apache_cluster.namesrv, topic)
    assert found["queueDatas"][0]["writeQueueNums"] == 3
    assert topic in apache_admin.run("topics")
    assert apache_admin.run("route", topic=topic)["brokerDatas"][0]["brokerName"] == "broker-a"
    assert apache_admin.run("cluster")["broker-a"]["addresses"] == {"0": apache_cluster.brokers[0].address}
    apache_admin.run("delete_topic", topic=topic)
    with pytest.raises(InteropError, match="MQClientException"):
        apache_admin.run("route", topic=topic)


@pytest.mark.one_line("4.9.7", "asks the harness, whose way to kill is the same for both")
def test_a_store_outlives_a_killed_broker(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, namesrv = fresh_name("Outlives"), apache_cluster.namesrv
    with apache.broker(namesrv, name="broker-killed", home=tmp_path) as broker:
        probe.create_topic(broker.address, topic, queues=1)
        probe.wait_route(namesrv, topic)
        java_produce(apache, namesrv, topic, 10)
        os.kill(broker.process.pid, signal.SIGKILL)
    assert (tmp_path / "store" / "abort").exists()
    with (
        apache.broker(namesrv, name="broker-killed", home=tmp_path) as broker,
        java_push_consumer(apache, namesrv, fresh_name("late-group"), topic) as consumer,
    ):
        messages = consumer.wait_messages(10)
        assert {body(message) for message in messages} == {f"body-{n}" for n in range(10)}
        broker.process.kill()


def test_a_broker_that_finds_no_name_server_shows_its_log(apache: Apache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "REGISTER_SECONDS", 0.1)
    before = [name for name, _ in running_reports()]
    with (
        port_block() as nobody,
        pytest.raises(InteropError, match=rf"(?s)no registration of broker-a at 127.0.0.1:{nobody}.*boot success"),
        apache.broker(f"127.0.0.1:{nobody}"),
    ):
        pytest.fail("the broker counts as ready without a name server")
    assert [name for name, _ in running_reports()] == before
