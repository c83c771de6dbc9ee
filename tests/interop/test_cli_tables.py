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


def test_exports(cli: Cli, topic: str, tmp_path: Path, fresh_name: Callable[[str], str]) -> None:
    group = fresh_name("group")
    cli.ok("group", "create", group, "--max-retries", "3")
    metadata = json.loads(cli.ok("cluster", "export", "metadata", CLUSTER))
    assert metadata["topicConfigTable"][topic]["writeQueueNums"] == 2
    assert metadata["subscriptionGroupTable"][group]["retryMaxTimes"] == 3
    configs = json.loads(cli.ok("cluster", "export", "configs", CLUSTER))
    assert configs["brokerConfigs"][BROKER]["brokerName"] == BROKER
    # Brokers of 4.x do not tell their state until they have counted for the first time.
    line = ["cluster", "export", "metrics", CLUSTER]
    metrics = eventually(lambda: cli.run(*line).stdout or None, "the state of the broker", 30)
    quota = json.loads(metrics)["evaluateReport"][BROKER]["runtimeQuota"]
    assert quota["topicSize"] >= 1
    assert quota["groupSize"] >= 1
    for name, file in (("exportMetadata", "metadata"), ("exportConfigs", "configs"), ("exportMetrics", "metrics")):
        cli.ok(name, "-c", CLUSTER, "-f", str(tmp_path))
        assert json.loads((tmp_path / f"{file}.json").read_text("utf-8"))


def test_traffic_and_entries(cli: Cli, topic: str, fresh_name: Callable[[str], str]) -> None:
    group = fresh_name("group")
    cli.ok("group", "create", group)
    for _ in range(3):
        cli.ok("send", topic, "one", "--queue", "0")
    cli.ok("group", "commit", group, topic, "-b", BROKER, "-q", "0", "-o", "1", "--yes")

    def lag(*line: str) -> list[int] | None:
        return [row["lag"] for row in cli.rows(*line) if (row["topic"], row["group"]) == (topic, group)] or None

    for line in (["topic", "traffic", topic], ["topic", "traffic"], ["statsAll", "-t", topic]):
        assert eventually(lambda line=line: lag(*line), "the group of the topic", 30) == [2]
    rows = cli.rows("message", "entries", topic, "--queue", "0", "--begin", "1")
    assert [(row["offset"], row["broker"], row["size"] > 0) for row in rows] == [(1, BROKER, True), (2, BROKER, True)]
    address = cli.rows("broker", "list")[0]["address"]
    assert cli.rows("queryCq", "-t", topic, "-q", "0", "-i", "1", "-c", "9", "-b", address, "-g", group) == rows


def test_replication(cli: Cli) -> None:
    state = eventually(lambda: cli.run("broker", "runtime", "--json").stdout or None, "the state of the broker", 30)
    is_4 = json.loads(state)["version"].startswith("V4")
    for line in (["broker", "replication"], ["haStatus", "-c", CLUSTER]):
        result = cli.run(*line, "--json")
        assert result.exit_code == (1 if is_4 else 0), result.output
        if is_4:
            assert "not supported" in result.stderr
        else:
            assert json.loads(result.stdout)["isMaster"] is True


def test_shares_and_times_of_sends(cli: Cli, topic: str) -> None:
    rows = cli.rows("topic", "shares", topic, "10.0.0.1", "10.0.0.2")
    assert [(row["clientId"], row["queueId"]) for row in rows] == [("10.0.0.1", 0), ("10.0.0.2", 1)]
    assert cli.rows("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2") == rows
    [row] = cli.rows("cluster", "probe", CLUSTER, "--messages", "3", "--size", "16")
    assert (row["broker"], row["stored"], row["failed"]) == (BROKER, 3, 0)
    assert cli.rows("sendMsgStatus", "-b", BROKER, "-s", "32", "-c", "3")[-1]["messages"] == 3
