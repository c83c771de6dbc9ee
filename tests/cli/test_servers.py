"""rocketpy broker, cluster and namesrv."""

from __future__ import annotations

import pytest

from rocketpy.message import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(two_brokers: BlockingLocalCluster) -> BlockingLocalCluster:
    two_brokers.create_topic("Orders", queues=1)
    for number in range(4):
        two_brokers.send(Message("Orders", b"order %d" % number))
    return two_brokers


def test_brokers_are_listed(cli: Cli, cluster: BlockingLocalCluster) -> None:
    first, second = cluster.broker_addresses
    assert [line.split() for line in cli.lines("broker", "list")] == [
        ["cluster", "broker", "id", "role", "address"],
        ["DefaultCluster", "broker-a", "0", "master", first],
        ["DefaultCluster", "broker-b", "0", "master", second],
    ]
    assert [row["isMaster"] for row in cli.rows("broker", "list", "-c", "DefaultCluster")] == [True, True]


def test_settings_are_shown_and_changed(cli: Cli) -> None:
    assert cli.lines("broker", "config", "broker-a", "brokerName") == ["key         value", "brokerName  broker-a"]
    assert len(cli.rows("broker", "config", "broker-a")[0]["settings"]) > 50
    assert cli.ok("broker", "update-config", "autoCreateTopicEnable=false") == (
        "changed autoCreateTopicEnable of all masters\n"
    )
    changed = cli.rows("broker", "update-config", "autoCreateTopicEnable=true", "-b", "broker-b")
    assert changed == [{"changed": {"autoCreateTopicEnable": "true"}}]
    shown = [cli.rows("broker", "config", each, "autoCreateTopicEnable")[0] for each in ("broker-a", "broker-b")]
    assert [row["settings"]["autoCreateTopicEnable"] for row in shown] == ["false", "true"]


def test_the_state_is_shown_in_short_and_in_full(cli: Cli) -> None:
    rows = cli.rows("broker", "runtime")
    assert [(row["broker"], row["version"]) for row in rows] == [("broker-a", "V5_3_3"), ("broker-b", "V5_3_3")]
    assert sum(row["putsToday"] for row in rows) == 4
    assert [line.split()[0] for line in cli.lines("broker", "runtime", "-c", "DefaultCluster")[1:]] == [
        "broker-a",
        "broker-b",
    ]
    assert any(line.startswith("brokerVersionDesc ") for line in cli.lines("broker", "runtime", "broker-a"))


def test_statistics_are_shown(cli: Cli) -> None:
    rows = cli.rows("broker", "stats", "broker-a", "TOPIC_PUT_NUMS", "Orders")
    assert [row["span"] for row in rows] == ["minute", "hour", "day"]
    assert "no statistic TOPIC_PUT_NUMS for Nothing" in cli.fails(
        "broker", "stats", "broker-a", "TOPIC_PUT_NUMS", "Nothing"
    )


def test_a_broker_is_drained_before_it_stops(cli: Cli) -> None:
    said = cli.ok("broker", "set-writable", "broker-a", "no")
    assert said.startswith("broker-a is read-only now, with ")
    assert [row["permission"] for row in cli.rows("topic", "route", "Orders")] == ["r", "rw"]
    [row] = cli.rows("broker", "set-writable", "broker-a", "yes")
    assert (row["broker"], row["writable"]) == ("broker-a", True)
    assert [row["permission"] for row in cli.rows("topic", "route", "Orders")] == ["rw", "rw"]


@pytest.mark.parametrize("name", ["delete-expired-files", "delete-expired-queues", "delete-unused-queues"])
def test_cleaning_up_asks_first(cli: Cli, name: str) -> None:
    assert "there is no terminal to ask" in cli.fails("broker", name)
    assert cli.ok("broker", name, "--yes").endswith(" on all masters\n")
    assert cli.ok("broker", name, "-y", "-c", "DefaultCluster").endswith(" on the cluster DefaultCluster\n")
    assert cli.ok("broker", name, "-y", "-b", "broker-b").endswith(" on broker-b\n")


def test_clusters_are_shown_with_their_rates(cli: Cli) -> None:
    [row] = cli.rows("cluster", "list")
    assert (row["cluster"], row["masters"], row["slaves"], row["answered"], row["putsToday"]) == (
        "DefaultCluster",
        2,
        0,
        2,
        4,
    )
    rows = cli.rows("cluster", "show", "DefaultCluster")
    assert [(row["name"], row["brokerId"], row["version"]) for row in rows] == [
        ("broker-a", 0, "V5_3_3"),
        ("broker-b", 0, "V5_3_3"),
    ]
    assert cli.lines("cluster", "show")[0].split()[:4] == ["cluster", "broker", "id", "address"]


def test_name_servers_are_shown_and_changed(cli: Cli, cluster: BlockingLocalCluster) -> None:
    address = cluster.name_server_addresses
    assert cli.lines("namesrv", "list") == ["address", address]
    assert cli.ok("namesrv", "update-config", "orderMessageEnable=true") == (
        "changed orderMessageEnable of all name servers\n"
    )
    assert cli.rows("namesrv", "config", "orderMessageEnable") == [
        {"nameServer": address, "settings": {"orderMessageEnable": "true"}}
    ]
    assert any(line.startswith("listenPort ") for line in cli.lines("namesrv", "config"))


def test_keys_of_name_servers(cli: Cli) -> None:
    assert cli.ok("namesrv", "kv", "list", "Space") == "no keys\n"
    assert cli.ok("namesrv", "kv", "put", "Space", "key", "va\x1b[31mlue") == "set key in Space\n"
    assert cli.lines("namesrv", "kv", "list", "Space") == ["key  value", "key  va\\x1b[31mlue"]
    assert cli.ok("namesrv", "kv", "get", "Space", "key") == "va\\x1b[31mlue\n"
    assert cli.rows("namesrv", "kv", "get", "Space", "key")[0]["value"] == "va\x1b[31mlue"
    assert "there is no terminal to ask" in cli.fails("namesrv", "kv", "delete", "Space", "key")
    assert cli.ok("namesrv", "kv", "delete", "Space", "key", "--yes") == "deleted key in Space\n"
    assert "key is not set in Space" in cli.fails("namesrv", "kv", "get", "Space", "key")


def test_the_order_configuration_of_a_topic(cli: Cli) -> None:
    assert cli.ok("namesrv", "order", "Orders") == "not set\n"
    assert cli.ok("namesrv", "order", "Orders", "broker-a=2", "broker-b=1") == (
        "set the order configuration of Orders to broker-a=2, broker-b=1\n"
    )
    assert cli.lines("namesrv", "order", "Orders") == ["key     value", "Orders  broker-a:2;broker-b:1"]
    assert "there is no terminal to ask" in cli.fails("namesrv", "order", "Orders", "--delete")
    assert cli.ok("namesrv", "order", "Orders", "--delete", "-y") == "deleted the order configuration of Orders\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["broker", "config", "broker-x"], "there is no broker 'broker-x'; known brokers: broker-a, broker-b"),
        (["broker", "config", "bad broker"], "brokers must be names such as broker-a"),
        (["broker", "config", "broker-a", "noSuchKey"], "broker-a has no setting noSuchKey"),
        (["broker", "runtime", "broker-a", "-c", "DefaultCluster"], "pass a broker or --cluster, not both"),
        (["broker", "runtime", "-c", "Other"], "there is no cluster 'Other'"),
        (["broker", "update-config", "storePathRootDir=/tmp", "-b", "broker-a"], "cannot be changed at run time"),
        (["broker", "update-config", "noValue"], "a setting must be like key=value"),
        (["broker", "update-config", "a=1", "a=2"], "'a' is given twice"),
        (["broker", "update-config", "a=1", "-b", "broker-a", "-c", "DefaultCluster"], "pass brokers or cluster"),
        (["broker", "set-writable", "broker-x", "no"], "there is no broker 'broker-x'"),
        (["broker", "set-writable", "127.0.0.1:1", "no"], "name servers know brokers only by their names"),
        (["cluster", "show", "Other"], "there is no cluster 'Other'; known clusters: DefaultCluster"),
        (["namesrv", "order", "Orders", "broker-a=many"], "a number of queues must be a whole number"),
        (["namesrv", "order", "Orders", "broker-a=0"], "queues must map names of brokers"),
        (["namesrv", "order", "Orders", "broker-a=1", "--delete"], "pass BROKER=NUMBER or --delete, not both"),
        (["namesrv", "config", "noSuchKey"], "has no setting noSuchKey"),
        (["namesrv", "update-config", "bindAddress=0.0.0.0"], "bindAddress"),
    ],
)
def test_bad_input_is_refused(cli: Cli, line: list[str], said: str) -> None:
    assert said in cli.fails(*line)
