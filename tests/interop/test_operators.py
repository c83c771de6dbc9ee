"""What operators do with Apache's `mqadmin` on our servers besides topics: offsets, ordered topics, figures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.interop import probe
from tests.interop.drivers import java_produce, java_push_consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaAdmin

pytestmark = pytest.mark.interop

GET_TOPIC_CONFIG = 351


@pytest.fixture
def admin(our_admin: JavaAdmin) -> JavaAdmin:
    return our_admin


def test_offsets_are_reset_while_java_consumes(
    apache: Apache, our_servers: Cluster, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Reset"), fresh_name("reset-group")
    our_servers.create_topic(topic, queues=2)
    with java_push_consumer(apache, our_servers.namesrv, group, topic) as consumer:
        consumer.wait_share(topic, 2)
        java_produce(apache, our_servers.namesrv, topic, 20)
        assert len(consumer.wait_messages(20)) == 20
        said = admin.mqadmin("resetOffsetByTime", n=our_servers.namesrv, g=group, t=topic, s=0)
        assert "broker-a" in said
        again = consumer.wait_messages(40)
        assert sorted(each["msgId"] for each in again[20:]) == sorted(each["msgId"] for each in again[:20])


def test_a_topic_that_is_declared_ordered_becomes_so_at_the_broker(
    our_servers: Cluster, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Ordered")
    our_servers.create_topic(topic, queues=4)
    said = admin.mqadmin("updateOrderConf", n=our_servers.namesrv, t=topic, v="broker-a:4", m="put")
    assert "update orderConf success" in said
    assert "broker-a:4" in admin.mqadmin("updateOrderConf", n=our_servers.namesrv, t=topic, m="get")
    # Any change of topics makes the broker register; the answer tells it which ones are ordered.
    our_servers.create_topic(fresh_name("Another"), queues=1)

    def is_ordered() -> bool | None:
        answer = probe.call(our_servers.brokers[0].address, GET_TOPIC_CONFIG, {"topic": topic})
        return b'"order":true' in answer.body or None

    probe.eventually(is_ordered, f"{topic} to be ordered", 20.0)


def test_the_list_of_the_cluster_shows_messages_a_second(
    apache: Apache, our_servers: Cluster, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Counted")
    our_servers.create_topic(topic, queues=1)
    began = time.monotonic()
    java_produce(apache, our_servers.namesrv, topic, 500)
    status = admin.mqadmin("brokerStatus", n=our_servers.namesrv, b=our_servers.brokers[0].address)
    figures = {line.split(":")[0].strip(): line.partition(":")[2].strip() for line in status.splitlines()}
    assert int(figures["msgPutTotalTodayNow"]) >= 500
    # The first figure is of the last ten seconds or so, for which a busy machine may not have been enough.
    share = min(1.0, 10 / (time.monotonic() - began))
    assert float(figures["putTps"].split()[0]) >= 49 * share
    [row] = [line for line in admin.mqadmin("clusterList", n=our_servers.namesrv).splitlines() if "broker-a" in line]
    assert float(row.split()[5].partition("(")[0]) >= 40 * share
