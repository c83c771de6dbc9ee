"""rocketpy topic import and rocketpy group import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketpy.cli.importing import GROUPS, TOPICS, settings_in
from rocketpy.errors import ConfigError
from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(two_brokers: BlockingLocalCluster) -> BlockingLocalCluster:
    return two_brokers


def file_of(tmp_path: Path, found: Any) -> str:
    path = tmp_path / "settings.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found), "utf-8")
    return str(path)


def test_topics_of_a_list(cli: Cli, tmp_path: Path) -> None:
    file = file_of(
        tmp_path,
        [
            {"topicName": "One", "readQueueNums": 3, "writeQueueNums": 2, "perm": 4, "order": True},
            {"topicName": "Two", "attributes": {"+message.type": "FIFO"}, "topicSysFlag": 0},
        ],
    )
    rows = cli.rows("topic", "import", file, "--broker", "broker-a")
    assert [(row["topic"], row["readQueues"], row["writeQueues"], row["permission"]) for row in rows] == [
        ("One", 3, 2, "r"),
        ("Two", 8, 8, "rw"),
    ]
    assert (rows[0]["order"], rows[1]["messageType"]) == (True, "FIFO")
    assert cli.rows("topic", "get", "One") == rows[:1]
    rows = cli.rows("topic", "import", file, "--exist-ok", "--cluster", "DefaultCluster")
    assert [(row["topic"], row["broker"]) for row in rows] == [
        ("One", "broker-a"),
        ("One", "broker-b"),
        ("Two", "broker-a"),
        ("Two", "broker-b"),
    ]


def test_groups_of_a_list(cli: Cli, tmp_path: Path) -> None:
    made = {"groupName": "made", "consumeEnable": False, "retryMaxTimes": 3, "consumeTimeoutMinute": 2}
    rows = cli.rows("group", "import", file_of(tmp_path, [made, {"groupName": "other"}]))
    assert [(row["group"], row["broker"], row["consume"], row["maxRetries"]) for row in rows] == [
        ("made", "broker-a", False, 3),
        ("made", "broker-b", False, 3),
        ("other", "broker-a", True, 16),
        ("other", "broker-b", True, 16),
    ]
    assert [row["consumeTimeout"] for row in rows[:2]] == [120, 120]


def test_what_brokers_say_of_topics_and_groups_can_be_read_again(tmp_path: Path) -> None:
    topic, group = TopicConfig(topic_name="T", perm=6), SubscriptionGroupConfig(group_name="g")
    tables = {"topicConfigTable": {"T": topic.to_json()}, "subscriptionGroupTable": {"g": group.to_json()}}
    file = file_of(tmp_path, tables)
    assert settings_in(file, TOPICS)["T"] == {
        "queues": 16,
        "read_queues": 16,
        "permission": "rw",
        "order": False,
        "attributes": {},
    }
    assert settings_in(file, GROUPS)["g"]["consume_timeout"] == 900


def test_the_first_that_fails_ends_it(cli: Cli, tmp_path: Path) -> None:
    wanted = [{"topicName": "First"}, {"topicName": "Bad", "writeQueueNums": 0}, {"topicName": "Third"}]
    result = cli.run("topic", "import", file_of(tmp_path, wanted))
    assert result.exit_code == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["topic", "First", "First"]
    said = result.stderr.splitlines()
    assert said[0] == "rocketpy: 1 of 3 topics are created; to begin again, pass --exist-ok"
    assert said[1].startswith("rocketpy: error: the topic Bad: queues must be")
    assert "the topic Third does not exist" in cli.fails("topic", "get", "Third")
    said = cli.fails("topic", "import", file_of(tmp_path, wanted[:1]))
    assert "the topic First exists already" in said
    assert "pass --exist-ok" in said


def test_standard_input_is_read(cli: Cli) -> None:
    result = cli.run("topic", "import", "-", "--json", typed='[{"topicName": "Piped"}]')
    assert (result.exit_code, json.loads(result.stdout.splitlines()[0])["topic"]) == (0, "Piped")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("[", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "has no topics: it must be an array, or an object with topicConfigTable"),
        ({"subscriptionGroupTable": {}}, "has no topics"),
        ([1], "topic 1 must be an object with topicName, not 1"),
        ([{"topicName": ""}], "topic 1 must be an object with topicName"),
        ([{"topicName": "A"}, {"topicName": "A"}], "the topic A is there twice"),
        ([{"topicName": "A", "perm": 7}], "the topic A: perm must be 0 (nothing), 2 (write), 4 (read) or 6 (both)"),
        ([{"topicName": "A", "perm": []}], "the topic A: perm must be"),
        ([{"topicName": "A", "order": 1}], "order must be true or false, not 1"),
        ([{"topicName": "A", "writeQueueNums": "4"}], "writeQueueNums must be a whole number, not '4'"),
        ([{"topicName": "A", "readQueueNums": True}], "readQueueNums must be a whole number, not True"),
        ([{"topicName": "A", "attributes": {"a": 1}}], "attributes must be an object of texts"),
        ([{"topicName": "A", "attributes": {"-a": ""}}], 'use "update --attribute NAME=" instead'),
        ([{"topicName": "A", "topicSysFlag": 1}], "rocketpy does not set topicSysFlag, here 1: leave it out"),
        ([{"topicName": "A", "queues": 1}], "there is no setting 'queues': check the spelling"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, found: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_in(file_of(tmp_path, found), TOPICS)
    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_named(cli: Cli) -> None:
    assert cli.fails("group", "import", "/nonexistent/file") == (
        "rocketpy: error: /nonexistent/file cannot be read: No such file or directory\n"
    )
