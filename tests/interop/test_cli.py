"""The command `rocketpy` on Apache's servers, and on ours: what administers, with the same outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocketpy.sync import Message, Producer, PushConsumer
from tests.cli.kit import Cli
from tests.interop.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("for Apache's servers and clients")]

BROKER = "broker-a"
CLUSTER = "InteropCluster"


@pytest.fixture(params=["apache_cluster", "our_servers"])
def cluster(apache: Apache, request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def cli(cluster: Cluster) -> Cli:
    return Cli(NAMESRV_ADDR=cluster.namesrv)


@pytest.fixture
def topic(cli: Cli, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("Shown")
    cli.ok("topic", "create", name, "--queues", "1", "--timeout", "10")
    return name


def test_servers_are_shown(cli: Cli) -> None:
    [broker] = cli.rows("broker", "list")
    assert (broker["name"], broker["cluster"], broker["isMaster"]) == (BROKER, CLUSTER, True)
    shown = eventually(lambda: cli.rows("cluster", "show", CLUSTER) or None, "the state of the broker", 30)
    assert shown[0]["version"].startswith("V")
    assert cli.rows("cluster", "list")[0]["answered"] == 1
    assert cli.rows("broker", "runtime")[0]["broker"] == BROKER
    assert "brokerName" in cli.ok("broker", "config", BROKER)
    assert cli.rows("namesrv", "config")[0]["settings"]["listenPort"]
    assert {"topic": "TBW102"} in cli.rows("topicList")
    assert cli.rows("clusterList")[0]["name"] == BROKER


def test_topics_and_groups(cli: Cli, topic: str, fresh_name: Callable[[str], str]) -> None:
    group = fresh_name("group")
    assert {"topic": topic} in cli.rows("topic", "list", "--cluster", CLUSTER)
    assert cli.rows("topic", "get", topic)[0]["writeQueues"] == 1
    assert cli.rows("topic", "route", topic)[0]["broker"] == BROKER
    assert [row["messages"] for row in cli.rows("topic", "stats", topic)] == [0]
    assert cli.rows("updateTopicPerm", "-t", topic, "-c", CLUSTER, "-p", "4")[0]["permission"] == "r"
    assert cli.rows("group", "create", group, "--max-retries", "3")[0]["maxRetries"] == 3
    assert cli.rows("getConsumerConfig", "-g", group)[0]["maxRetries"] == 3
    assert {"group": group} in cli.rows("group", "list")
    cli.ok("group", "delete", group, "--yes")
    cli.ok("topic", "delete", topic, "--yes")
    assert f"the topic {topic} does not exist" in cli.fails("topic", "get", topic)
    assert f"no broker has the group {group}" in cli.fails("group", "get", group)


def test_clients_lag_and_offsets(cli: Cli, cluster: Cluster, topic: str, fresh_name: Callable[[str], str]) -> None:
    group = fresh_name("group")
    consumed: list[Message] = []
    with (
        Producer(fresh_name("shop"), namesrv=cluster.namesrv) as producer,
        PushConsumer(group, namesrv=cluster.namesrv) as consumer,
    ):
        consumer.subscribe(topic, consumed.append)
        consumer.wait_assigned()
        for _ in range(4):
            producer.send(Message(topic, b"order"))
        [connected] = eventually(lambda: cli.rows("group", "members", group) or None, "a member", 30)
        member = connected["clients"][0]["clientId"]
        assert [each["topic"] for each in connected["subscriptions"]] == [f"%RETRY%{group}", topic]
        states = eventually(lambda: cli.rows("group", "state", group, member) or None, "a state", 30)
        assert topic in [each["topic"] for each in states[0]["queues"]]
        assert eventually(lambda: len(consumed) >= 4 or None, "the messages", 30)
    assert eventually(lambda: committed(cli, group, topic) == 4 or None, "the committed offset", 30)
    assert cli.rows("topic", "groups", topic) == [{"group": group}]
    assert group in [row["group"] for row in cli.rows("lag")]
    assert cli.rows("group", "reset", group, topic, "--to", "begin", "--yes")[0]["offset"] == 0
    assert committed(cli, group, topic) == 0


def committed(cli: Cli, group: str, topic: str) -> int:
    return max((row["committed"] for row in cli.rows("lag", group, "--topic", topic)), default=-1)
