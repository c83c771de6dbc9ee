"""rocketpy cluster export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketpy.message import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(two_brokers: BlockingLocalCluster) -> BlockingLocalCluster:
    cli = Cli(two_brokers)
    cli.ok("topic", "create", "Orders", "--queues", "1", "--permission", "r", "--attribute", "message.type=FIFO")
    cli.ok("topic", "update", "Orders", "--queues", "3", "--broker", "broker-b")
    cli.ok("group", "create", "billing", "--max-retries", "3")
    two_brokers.create_topic("Bills", queues=1)
    two_brokers.send(Message("Bills", b"bill"))
    return two_brokers


def exported(cli: Cli, *line: str) -> Any:
    return json.loads(cli.ok("cluster", "export", *line))


def test_topics_and_groups_can_be_read_again(cli: Cli, tmp_path: Path) -> None:
    found = exported(cli, "metadata", "DefaultCluster")
    assert sorted(found) == ["exportTime", "subscriptionGroupTable", "topicConfigTable"]
    assert sorted(found["topicConfigTable"]) == ["Bills", "Orders"]
    assert found["topicConfigTable"]["Orders"] == {
        "topicName": "Orders",
        "readQueueNums": 3,
        "writeQueueNums": 3,
        "perm": 4,
        "order": False,
        "attributes": {"message.type": "FIFO"},
    }
    assert found["subscriptionGroupTable"]["billing"]["retryMaxTimes"] == 3
    file = str(tmp_path / "new" / "metadata.json")
    assert cli.ok("cluster", "export", "metadata", "--file", file) == f"wrote {file}\n"
    with BlockingLocalCluster() as other:
        there = Cli(other)
        assert [row["topic"] for row in there.rows("topic", "import", file)] == ["Bills", "Orders"]
        assert [row["group"] for row in there.rows("group", "import", file)] == ["billing"]
        copy = exported(there, "metadata")
    assert {**copy, "exportTime": 0} == {**found, "exportTime": 0}


def test_a_part_of_the_metadata(cli: Cli) -> None:
    assert sorted(exported(cli, "metadata", "--topics")) == ["exportTime", "topicConfigTable"]
    assert sorted(exported(cli, "metadata", "--groups")) == ["exportTime", "subscriptionGroupTable"]
    found = exported(cli, "metadata", "--internal", "--broker", "broker-a")
    assert "TBW102" in found["topicConfigTable"]
    assert found["topicConfigTable"]["Orders"]["writeQueueNums"] == 1
    assert len(cli.rows("cluster", "export", "metadata")) == 1


def test_settings_of_brokers(cli: Cli) -> None:
    found = exported(cli, "configs")
    assert found["clusterScale"] == {"namesrvSize": 1, "masterBrokerSize": 2, "slaveBrokerSize": 0}
    assert found["brokerConfigs"]["broker-b"]["brokerName"] == "broker-b"


def test_figures_of_brokers(cli: Cli) -> None:
    found = exported(cli, "metrics", "DefaultCluster")
    assert sorted(found["evaluateReport"]) == ["broker-a", "broker-b"]
    one = found["evaluateReport"]["broker-a"]
    assert (one["runtimeQuota"]["topicSize"], one["runtimeQuota"]["groupSize"]) == (2, 1)
    assert one["runtimeVersion"] == {"rocketmqVersion": "V5_3_3", "clientInfo": []}
    assert one["runtimeQuota"]["oneDayNum"]["normalOneDayInNum"] == 0
    assert sorted(found["totalData"]["totalTps"]) == [
        "totalNormalInTps",
        "totalNormalOutTps",
        "totalScheduleInTps",
        "totalTransInTps",
    ]
    assert sorted(found["totalData"]["totalOneDayNum"]) == sorted(one["runtimeQuota"]["oneDayNum"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["configs", "Other"], "there is no cluster 'Other'"),
        (["metadata", "Other"], "there is no cluster 'Other'"),
        (["metrics", "Other"], "there is no cluster 'Other'"),
        (["metadata", "DefaultCluster", "--broker", "broker-a"], "pass brokers or cluster, not both"),
        (["configs", "--file", "/dev/null/file"], "/dev/null/file cannot be written"),
    ],
)
def test_bad_input_is_refused(cli: Cli, line: list[str], said: str) -> None:
    assert said in cli.fails("cluster", "export", *line)
