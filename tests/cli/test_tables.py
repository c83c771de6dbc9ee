"""rocketpy topic traffic, message entries and broker replication."""

from __future__ import annotations

import pytest

from rocketpy.admin import BrokerReplication, SlaveReplication
from rocketpy.message import Message
from rocketpy.sync import PushConsumer
from rocketpy.sync.parts.brokers import Brokers
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(cluster: BlockingLocalCluster) -> BlockingLocalCluster:
    """With 3 messages in Orders, of which billing has consumed one, and nothing in Empty."""
    for topic in ("Empty", "Orders"):
        cluster.create_topic(topic, queues=1)
    for number in range(3):
        cluster.send(Message("Orders", b"order %d" % number, tags="paid"))
    cli = Cli(cluster)
    cli.ok("group", "create", "billing")
    cli.ok("group", "commit", "billing", "Orders", "-b", "broker-a", "-q", "0", "-o", "1", "--yes")
    return cluster


def test_the_traffic_of_all_topics(cli: Cli) -> None:
    rows = cli.rows("topic", "traffic")
    assert [(row["topic"], row["group"], row["lag"]) for row in rows if row["topic"] != "Sold"] == [
        ("Empty", None, None),
        ("Orders", "billing", 2),
    ]
    assert cli.rows("topic", "traffic", "Empty") == [
        {"topic": "Empty", "group": None, "lag": None, "putRate": 0.0, "getRate": None, "puts": 0, "gets": None}
    ]
    lines = [line.split() for line in cli.lines("topic", "traffic", "Empty")]
    assert lines[1] == ["Empty", "-", "-", "0.0", "-", "0", "-"]
    assert cli.ok("topic", "traffic", "Empty", "--active") == "no traffic\n"
    assert "the topic Unknown does not exist" in cli.fails("topic", "traffic", "Unknown")


def test_entries_of_a_queue(cli: Cli, cluster: BlockingLocalCluster) -> None:
    rows = cli.rows("message", "entries", "Orders", "--queue", "0", "--begin", "1")
    assert [(row["broker"], row["queueId"], row["offset"], row["delivered"]) for row in rows] == [
        ("broker-a", 0, 1, None),
        ("broker-a", 0, 2, None),
    ]
    line = ["message", "entries", "Orders", "-q", "0", "--count", "1", "-b", cluster.broker_addresses[0]]
    assert cli.lines(*line)[-1] == "the queue goes from offset 0 to 3"
    assert cli.lines("message", "entries", "Orders", "-q", "0", "--begin", "9") == [
        "no entries there",
        "the queue goes from offset 0 to 3",
    ]
    for broker, said in (
        ("127.0.0.1:1", "there is no broker at 127.0.0.1:1"),
        ("nobody", "there is no broker 'nobody'"),
    ):
        assert said in cli.fails("message", "entries", "Orders", "-q", "0", "-b", broker)
    assert "there is no Orders@broker-a:7" in cli.fails("message", "entries", "Orders", "-q", "7")
    assert "the topic Unknown does not exist" in cli.fails("message", "entries", "Unknown", "-q", "0")


def test_what_of_a_queue_a_group_would_get(cli: Cli, cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Sold", queues=1)
    cluster.send(Message("Sold", b"one", tags="paid"))
    line = ["message", "entries", "Sold", "-q", "0", "--group", "reading"]
    assert "reading is offline, or does not subscribe" in cli.lines(*line)
    with PushConsumer("reading", namesrv=cluster.name_server_addresses) as consumer:
        consumer.subscribe("Sold", lambda message: None, tags="sent")
        consumer.wait_assigned()
        assert [row["delivered"] for row in cli.rows(*line)] == [False]
        assert "reading subscribes to sent" in cli.lines(*line)


def test_a_master_without_slaves(cli: Cli) -> None:
    for line in ([], ["broker-a"], ["--cluster", "DefaultCluster"]):
        [row] = cli.rows("broker", "replication", *line)
        assert (row["broker"], row["isMaster"], row["slaves"], row["inSync"]) == ("broker-a", True, [], 0)
        assert cli.lines("broker", "replication", *line)[1].split()[2:] == ["-", "-", "-", "-", "-"]
    said = cli.fails("broker", "replication", "broker-a", "--cluster", "DefaultCluster")
    assert "pass a broker or --cluster, not both" in said
    assert "there is no broker 'nobody'" in cli.fails("broker", "replication", "nobody")


def test_masters_with_slaves_and_slaves(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    slave = SlaveReplication(
        address="10.0.0.2:1", acknowledged=90, behind=10, is_in_sync=True, byte_rate=2048, sent_from=95
    )
    found = BrokerReplication(broker="broker-a", is_master=True, commit_log_end=100, slaves=(slave,))
    monkeypatch.setattr(Brokers, "replication", lambda self, broker: found)
    expected = "broker-a 100 10.0.0.2:1 90 10 yes 2.0"
    assert cli.lines("broker", "replication")[1].split() == expected.split()
    found = BrokerReplication(
        broker="10.0.0.2:10911",
        is_master=False,
        commit_log_end=90,
        master="10.0.0.1:10912",
        master_flushed=80,
        byte_rate=0,
    )
    expected = "10.0.0.2:10911 90 10.0.0.1:10912 80 0.0 - -"
    assert cli.lines("broker", "replication", "10.0.0.2:10911")[1].split() == expected.split()
