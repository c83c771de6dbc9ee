"""rocketpy lag."""

from __future__ import annotations

import json

import pytest

from rocketpy.message import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(cluster: BlockingLocalCluster) -> BlockingLocalCluster:
    """With 3 messages in Orders, of which billing has consumed one."""
    cluster.create_topic("Orders", queues=1)
    for number in range(3):
        cluster.send(Message("Orders", b"order %d" % number))
    cli = Cli(cluster)
    cli.ok("group", "create", "billing")
    cli.ok("group", "commit", "billing", "Orders", "-b", "broker-a", "-q", "0", "-o", "1", "--yes")
    return cluster


def test_of_all_groups(cli: Cli) -> None:
    assert cli.rows("lag") == [{"group": "billing", "lag": 2, "inFlight": 0, "rate": 0.0, "topics": ["Orders"]}]
    assert [line.split() for line in cli.lines("lag")] == [
        ["group", "lag", "in", "flight", "consumed/s", "topics"],
        ["billing", "2", "0", "0.0", "1"],
    ]
    assert len(cli.rows("lag", "--internal", "--cluster", "DefaultCluster")) >= 1


def test_of_one_group_by_queues(cli: Cli) -> None:
    [row] = cli.rows("group", "lag", "billing", "--topic", "Orders")
    assert isinstance(row.pop("lastConsumedAt"), int)
    assert row == {
        "group": "billing",
        "topic": "Orders",
        "broker": "broker-a",
        "queueId": 0,
        "committed": 1,
        "pulled": 1,
        "end": 3,
        "lag": 2,
        "inFlight": 0,
    }
    assert cli.lines("lag", "billing")[-1] == "billing: 2 behind, 0 in flight, 0.0 consumed a second"


def test_of_the_queues_of_all_groups_on_a_broker(cli: Cli) -> None:
    [row] = cli.rows("lag", "--queues", "--broker", "broker-a")
    assert row == cli.rows("lag", "billing")[0]
    lines = [line.split() for line in cli.lines("lag", "--queues")]
    assert [line[:6] for line in lines[:2]] == [
        ["group", "topic", "broker", "queue", "committed", "end"],
        ["billing", "Orders", "broker-a", "0", "1", "3"],
    ]
    assert lines[2:] == [["2", "behind"]]


def test_of_what_is_far_behind_alone(cli: Cli) -> None:
    for line in (["lag"], ["lag", "--queues"], ["lag", "billing"]):
        assert [row["lag"] for row in cli.rows(*line, "--at-least", "2")] == [2]
        assert cli.rows(*line, "--at-least", "3") == []
    assert cli.ok("lag", "--at-least", "3") == "nothing is 3 messages behind\n"


def test_a_watch_without_a_terminal_prints_one_table_after_the_other(cli: Cli) -> None:
    lines = cli.lines("lag", "billing", "--watch", "--every", "0.1", "--times", "2")
    assert [line[-4:] for line in lines[::5]] == [" UTC", " UTC"]
    assert lines[3] == lines[8] == "billing: 2 behind, 0 in flight, 0.0 consumed a second"
    rows = [json.loads(line) for line in cli.lines("lag", "--watch", "--every", "0.1", "--times", "2", "--json")]
    assert [row["lag"] for row in rows] == [2, 2]
    assert rows[0]["at"] < rows[1]["at"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["unknown"], "no broker has the group unknown"),
        (["unknown", "--watch"], "no broker has the group unknown"),
        (["--topic", "Orders"], "--topic needs a group"),
        (["billing", "--topic", "Unknown"], "the topic Unknown does not exist"),
        (["billing", "--internal"], "--broker, --cluster and --internal are for all groups"),
        (["billing", "--broker", "broker-a"], "--broker, --cluster and --internal are for all groups"),
        (["--broker", "nobody"], "there is no broker 'nobody'"),
        (["--broker", "broker-a", "--cluster", "DefaultCluster"], "pass brokers or cluster, not both"),
        (["--every", "5"], "--every and --times need --watch"),
        (["--watch", "--every", "0"], "--every must be 0.1 to 86400 seconds"),
        (["--watch", "--every", "nan"], "--every must be 0.1 to 86400 seconds"),
        (["--watch", "--times", "0"], "--times must be at least 1"),
    ],
)
def test_bad_input_is_refused(cli: Cli, line: list[str], said: str) -> None:
    assert said in cli.fails("lag", *line)
