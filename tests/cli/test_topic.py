"""rocketpy topic."""

from __future__ import annotations

import pytest

from rocketpy.admin.results.servers import BrokerEntry
from rocketpy.message import Message
from rocketpy.seams import wall_ms
from rocketpy.sync.parts.brokers import Brokers
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(two_brokers: BlockingLocalCluster) -> BlockingLocalCluster:
    two_brokers.create_topic("Orders", queues=1)
    for number in range(6):
        two_brokers.send(Message("Orders", b"order %d" % number))
    return two_brokers


def test_topics_are_listed(cli: Cli) -> None:
    assert "Orders" in cli.lines("topic", "list")
    assert {"topic": "Orders"} in cli.rows("topic", "list", "--cluster", "DefaultCluster")
    assert {"topic": "TBW102"} in cli.rows("topic", "list", "--internal")
    assert {"topic": "TBW102"} not in cli.rows("topic", "list")


def test_settings_are_shown_by_broker(cli: Cli) -> None:
    assert cli.lines("topic", "get", "Orders") == [
        "topic   broker    read queues  write queues  permission  order  attributes",
        "Orders  broker-a            1             1  rw          no     -",
        "Orders  broker-b            1             1  rw          no     -",
    ]
    assert cli.rows("topic", "get", "Orders")[0] == {
        "topic": "Orders",
        "broker": "broker-a",
        "readQueues": 1,
        "writeQueues": 1,
        "permission": "rw",
        "order": False,
        "messageType": None,
        "attributes": {},
    }


def test_the_route_is_shown(cli: Cli, cluster: BlockingLocalCluster) -> None:
    rows = cli.rows("topic", "route", "Orders")
    assert [(row["broker"], row["cluster"], row["writeQueues"]) for row in rows] == [
        ("broker-a", "DefaultCluster", 1),
        ("broker-b", "DefaultCluster", 1),
    ]
    assert [row["addresses"] for row in rows] == [{"0": address} for address in cluster.broker_addresses]


def test_queues_are_shown_with_both_ends(cli: Cli) -> None:
    rows = cli.rows("topic", "stats", "Orders")
    assert [(row["broker"], row["queueId"], row["begin"]) for row in rows] == [("broker-a", 0, 0), ("broker-b", 0, 0)]
    assert sum(row["messages"] for row in rows) == 6
    assert all(abs(wall_ms() - row["lastWrittenAt"]) < 600_000 for row in rows)
    last = cli.lines("topic", "stats", "Orders")[-1]
    assert last.startswith("6 messages, ")


def test_a_single_message_is_not_called_messages(cli: Cli, cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Single", queues=1)
    cluster.send(Message("Single", b"the only one"))
    assert cli.lines("topic", "stats", "Single")[-1].startswith("1 message, ")
    assert "Delete the topic Single and its 1 message?" in cli.fails("topic", "delete", "Single")


def test_offsets_of_a_time_are_looked_up(cli: Cli) -> None:
    ends = [row["end"] for row in cli.rows("topic", "stats", "Orders")]
    assert [row["offset"] for row in cli.rows("topic", "offsets", "Orders", "1h")] == [0, 0]
    assert [row["offset"] for row in cli.rows("topic", "offsets", "Orders", "2000-01-01")] == [0, 0]
    late = str(wall_ms() + 3_600_000)
    assert [row["offset"] for row in cli.rows("topic", "offsets", "Orders", late)] == ends
    assert "TIME must be a date such as" in cli.fails("topic", "offsets", "Orders", "yesterday")


def test_a_topic_lives_from_create_to_delete(cli: Cli) -> None:
    made = cli.rows("topic", "create", "Made", "--queues", "2", "--read-queues", "3", "--broker", "broker-b", "--order")
    assert [(row["broker"], row["readQueues"], row["writeQueues"], row["order"]) for row in made] == [
        ("broker-b", 3, 2, True)
    ]
    assert cli.fails("topic", "create", "Made") == (
        'rocketpy: error: the topic Made exists already: change it with "update", or pass --exist-ok\n'
    )
    made = cli.rows("topic", "create", "Made", "--exist-ok", "--attribute", "message.type=FIFO")
    assert [(row["broker"], row["messageType"]) for row in made] == [("broker-a", "FIFO"), ("broker-b", "FIFO")]
    changed = cli.rows("topic", "update", "Made", "-p", "r", "--queues", "4", "--cluster", "DefaultCluster")
    assert [(row["broker"], row["writeQueues"], row["permission"]) for row in changed] == [
        ("broker-a", 4, "r"),
        ("broker-b", 4, "r"),
    ]
    changed = cli.rows("topic", "update", "Made", "-p", "none", "-b", "broker-a")
    assert [(row["broker"], row["permission"]) for row in changed] == [("broker-a", "")]
    assert cli.ok("topic", "delete", "Made", "--yes") == "deleted the topic Made\n"
    assert "the topic Made does not exist" in cli.fails("topic", "get", "Made")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["get", "Unknown"], '"rocketpy topic list" shows the topics'),
        (["stats", "Unknown"], "the topic Unknown does not exist"),
        (["route", "Unknown"], "the topic Unknown does not exist"),
        (["update", "Unknown", "-w", "2"], "the topic Unknown does not exist"),
        (["delete", "Unknown", "--yes"], "the topic Unknown does not exist"),
        (["groups", "Unknown"], "the topic Unknown does not exist"),
        (["get", "bad name"], "the topic 'bad name' has characters besides letters"),
        (["create", "T", "--queues", "0"], "queues must be"),
        (["create", "T", "--queues", "-3"], "queues must be"),
        (["create", "T", "-p", "x"], "permission must be 'rw', 'r', 'w' or ''"),
        (["create", "T", "--attribute", "x"], "--attribute must be like key=value"),
        (["create", "T", "--broker", "broker-x"], "there is no broker 'broker-x'; known brokers: broker-a, broker-b"),
        (["create", "T", "--cluster", "Other"], "there is no cluster 'Other'; known clusters: DefaultCluster"),
        (["list", "--cluster", "Other"], "there is no cluster 'Other'"),
        (["create", "TBW102"], "a topic of RocketMQ's own"),
        (["delete", "TBW102", "--yes"], "a topic of RocketMQ's own"),
        (["update", "Orders", "--cluster", "DefaultCluster", "-b", "broker-a"], "pass --broker or --cluster, not both"),
    ],
)
def test_bad_input_is_refused(cli: Cli, line: list[str], said: str) -> None:
    assert said in cli.fails("topic", *line)


def test_deleting_asks_first(cli: Cli) -> None:
    assert cli.fails("topic", "delete", "Orders") == (
        'rocketpy: error: nothing was changed: there is no terminal to ask "Delete the topic Orders and its 6 '
        'messages?"; pass --yes to confirm\n'
    )
    assert {"topic": "Orders"} in cli.rows("topic", "list")


def test_deleting_in_one_cluster_counts_its_messages_alone(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Brokers.list

    def one_of_two(brokers: Brokers, *, cluster: str | None = None) -> tuple[BrokerEntry, ...]:
        found = real(brokers)
        return found if cluster is None else tuple(each for each in found if each.name == "broker-a")

    on_each = [row["messages"] for row in cli.rows("topic", "stats", "Orders") if row["broker"] == "broker-a"]
    monkeypatch.setattr(Brokers, "list", one_of_two)
    said = cli.fails("topic", "delete", "Orders", "--cluster", "DefaultCluster")
    assert f"its {sum(on_each)} messages in the cluster DefaultCluster?" in said
    assert sum(on_each) < 6
