"""rocketpy topic shares."""

from __future__ import annotations

import pytest

from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(cluster: BlockingLocalCluster) -> BlockingLocalCluster:
    cluster.create_topic("Orders", queues=3)
    return cluster


def test_queues_are_shared_among_members_in_any_order(cli: Cli) -> None:
    expected = [("a", 0), ("a", 1), ("b", 2)]
    for members in (["a", "b"], ["b", "a"]):
        assert [
            (row["clientId"], row["queueId"]) for row in cli.rows("topic", "shares", "Orders", *members)
        ] == expected
    assert [line.split() for line in cli.lines("topic", "shares", "Orders", "a", "b")] == [
        ["client", "id", "broker", "queue"],
        ["a", "broker-a", "0"],
        ["a", "broker-a", "1"],
        ["b", "broker-a", "2"],
    ]


def test_strategies_differ(cli: Cli) -> None:
    rows = cli.rows("topic", "shares", "Orders", "a", "b", "--strategy", "by_circle")
    assert [(row["clientId"], row["queueId"]) for row in rows] == [("a", 0), ("a", 2), ("b", 1)]
    rows = cli.rows("topic", "shares", "Orders", "a", "b", "--strategy", "consistent_hash")
    assert sorted(row["queueId"] for row in rows) == [0, 1, 2]
    assert "is not one of" in cli.fails("topic", "shares", "Orders", "a", "--strategy", "x", status=2)


def test_members_without_a_queue_are_named(cli: Cli) -> None:
    assert cli.lines("topic", "shares", "Orders", *"edcba")[-1] == "without a queue: d, e"


def test_a_topic_that_cannot_be_read_has_no_shares(cli: Cli) -> None:
    cli.ok("topic", "create", "Written", "--permission", "w")
    assert cli.ok("topic", "shares", "Written", "a") == "no queue of the topic can be read\nwithout a queue: a\n"
    assert "the topic Unknown does not exist" in cli.fails("topic", "shares", "Unknown", "a")
