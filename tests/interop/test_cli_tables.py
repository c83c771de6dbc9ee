"""The commands of `rocketpy` that take, show or write much at once, on Apache's servers and on ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.kit import Cli
from tests.interop.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    name = fresh_name("Tabled")
    cli.ok("topic", "create", name, "--queues", "2", "--timeout", "10")
    return name


def test_files_are_imported(cli: Cli, tmp_path: Path, fresh_name: Callable[[str], str]) -> None:
    names, group = [fresh_name("Listed"), fresh_name("Listed")], fresh_name("listed")
    topics, groups = tmp_path / "topics.json", tmp_path / "groups.json"
    topics.write_text(json.dumps([{"topicName": name, "writeQueueNums": 2, "readQueueNums": 3} for name in names]))
    groups.write_text(json.dumps({"subscriptionGroupTable": {group: {"groupName": group, "retryMaxTimes": 4}}}))
    for line in (["topic", "import", str(topics)], ["updateTopicList", "-f", str(topics), "-c", CLUSTER]):
        rows = cli.rows(*line, "--timeout", "10")
        assert [(row["topic"], row["writeQueues"], row["readQueues"]) for row in rows] == [
            (name, 2, 3) for name in names
        ]
    for line in (["group", "import", str(groups)], ["updateSubGroupList", "-f", str(groups), "-c", CLUSTER]):
        [row] = cli.rows(*line)
        assert (row["group"], row["maxRetries"]) == (group, 4)


def test_lag_by_queues_on_a_broker(cli: Cli, topic: str, fresh_name: Callable[[str], str]) -> None:
    group = fresh_name("group")
    cli.ok("group", "create", group)
    cli.ok("send", topic, "one", "--queue", "0")
    cli.ok("group", "commit", group, topic, "-b", BROKER, "-q", "0", "-o", "0", "--yes")

    def behind(*line: str) -> list[int] | None:
        rows = cli.rows(*line)
        return [row["lag"] for row in rows if (row["group"], row["topic"], row["queueId"]) == (group, topic, 0)] or None

    address = cli.rows("broker", "list")[0]["address"]
    for line in (["lag", "--queues", "--broker", BROKER], ["brokerConsumeStats", "-b", address, "-l", "1"]):
        assert eventually(lambda line=line: behind(*line), "the lag of the group", 30) == [1]


def test_shares_and_times_of_sends(cli: Cli, topic: str) -> None:
    rows = cli.rows("topic", "shares", topic, "10.0.0.1", "10.0.0.2")
    assert [(row["clientId"], row["queueId"]) for row in rows] == [("10.0.0.1", 0), ("10.0.0.2", 1)]
    assert cli.rows("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2") == rows
    assert cli.rows("sendMsgStatus", "-b", BROKER, "-s", "32", "-c", "3")[-1]["messages"] == 3
