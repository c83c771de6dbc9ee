"""rocketpy group, consumer and producer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpy.message import Message
from rocketpy.sync import Producer, PushConsumer
from rocketpy.sync.parts.offsets import Offsets
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(cluster: BlockingLocalCluster) -> Iterator[BlockingLocalCluster]:
    """With 4 messages in Orders, a producer of the group shop, and the group billing that has consumed them."""
    address = cluster.name_server_addresses
    cluster.create_topic("Orders", queues=1)
    with Producer("shop", namesrv=address) as producer, PushConsumer("billing", namesrv=address) as consumer:
        consumer.subscribe("Orders", lambda message: None, tags="paid || sent")
        for number in range(4):
            producer.send(Message("Orders", b"order %d" % number, tags="paid"))
        cluster.wait_consumed("billing", "Orders")
        yield cluster


@pytest.fixture
def member(cli: Cli) -> str:
    """The client id of the consumer."""
    [connected] = cli.rows("group", "members", "billing")
    found: str = connected["clients"][0]["clientId"]
    return found


def test_groups_are_listed(cli: Cli) -> None:
    assert "billing" in cli.lines("group", "list")
    assert {"group": "billing"} in cli.rows("group", "list", "--cluster", "DefaultCluster")
    assert {"group": "TOOLS_CONSUMER"} in cli.rows("group", "list", "--internal")


def test_settings_are_shown(cli: Cli) -> None:
    [row] = cli.rows("group", "get", "billing")
    assert (row["broker"], row["consume"], row["maxRetries"], row["forbiddenTopics"]) == ("broker-a", True, 16, [])
    assert cli.lines("group", "get", "billing")[1].split()[:4] == ["billing", "broker-a", "yes", "yes"]


def test_members_and_subscriptions_are_shown(cli: Cli, member: str) -> None:
    [row] = cli.rows("consumer", "connections", "billing")
    assert [(each["topic"], each["expression"]) for each in row["subscriptions"]] == [
        ("%RETRY%billing", "*"),
        ("Orders", "paid || sent"),
    ]
    text = cli.ok("group", "members", "billing")
    assert member in text
    assert "Orders          tags  paid || sent" in text
    assert text.endswith("push consumers, CLUSTERING, new queues from CONSUME_FROM_LAST_OFFSET\n")
    cli.ok("group", "create", "empty")
    assert cli.ok("group", "members", "empty") == "no member is connected\n"


def test_the_state_of_a_member_is_shown(cli: Cli, member: str) -> None:
    [row] = cli.rows("group", "state", "billing", member, "--stacks")
    assert [each["commitOffset"] for each in row["queues"] if each["topic"] == "Orders"] == [4]
    assert "rocketpy." in row["stacks"]
    assert row["settings"]["consumerGroup"] == "billing"
    text = cli.ok("consumer", "state", "billing", member)
    assert "Orders" in text
    assert "consumerGroup" not in text
    assert "rocketpy." not in text
    text = cli.ok("consumer", "state", "billing", member, "--stacks", "--settings")
    assert "consumerGroup " in text
    assert "    at rocketpy." in text
    assert "\t" not in text


def test_offsets_that_members_report_are_shown(cli: Cli, member: str) -> None:
    expected = {"clientId": member, "topic": "Orders", "broker": "broker-a", "queueId": 0, "offset": 4}
    assert cli.rows("group", "offsets", "billing", "Orders") == [expected]
    assert cli.rows("consumer", "offsets", "billing", "Orders", "--member", member) == [expected]


def test_topics_of_a_group_and_groups_of_a_topic(cli: Cli) -> None:
    assert {"topic": "Orders"} in cli.rows("group", "topics", "billing")
    assert {"group": "billing"} in cli.rows("topic", "groups", "Orders")


def test_producers_are_shown(cli: Cli) -> None:
    [row] = cli.rows("producer", "list")
    assert (row["group"], row["brokers"]) == ("shop", ["broker-a"])
    [row] = cli.rows("producer", "connections", "shop")
    assert (row["group"], row["language"]) == ("shop", "PYTHON")
    assert "no producer of the group nobody is connected" in cli.fails("producer", "connections", "nobody")


def test_a_group_lives_from_create_to_delete(cli: Cli) -> None:
    [made] = cli.rows("group", "create", "made", "--max-retries", "3", "--no-broadcast", "--consume-timeout", "120")
    assert (made["maxRetries"], made["broadcast"], made["consumeTimeout"]) == (3, False, 120)
    assert cli.fails("group", "create", "made") == (
        'rocketpy: error: the group made exists already: change it with "update", or pass --exist-ok\n'
    )
    [changed] = cli.rows("group", "update", "made", "--no-consume", "--cluster", "DefaultCluster")
    assert (changed["consume"], changed["maxRetries"]) == (False, 3)
    assert cli.ok("group", "set-readable", "made", "Orders", "no") == "made may not read Orders\n"
    assert cli.rows("group", "get", "made")[0]["forbiddenTopics"] == ["Orders"]
    assert cli.rows("group", "set-readable", "made", "Orders", "yes") == [
        {"group": "made", "topic": "Orders", "readable": True}
    ]
    assert cli.ok("group", "delete", "made", "--offsets", "--yes") == "deleted the group made and its offsets\n"
    assert "no broker has the group made" in cli.fails("group", "get", "made")


def offsets(cli: Cli, group: str) -> list[int]:
    return [row["committed"] for row in cli.rows("lag", group, "--topic", "Orders")]


def test_offsets_are_reset_cloned_and_committed(cli: Cli) -> None:
    cli.ok("group", "create", "report")
    assert cli.ok("group", "clone", "billing", "report", "Orders", "--yes") == (
        "copied the offsets of billing in Orders to report\n"
    )
    assert offsets(cli, "report") == [4]
    line = ["group", "commit", "report", "Orders", "--broker", "broker-a", "--queue", "0", "--yes", "--offset"]
    assert cli.ok(*line, "3") == "set the offset of report in Orders, queue 0 of broker-a, from 4 to 3\n"
    for offset, said in (("-1", "an offset must be a whole number"), ("9", "goes from offset 0 to 4, so 9 cannot be")):
        assert said in cli.fails(*line, offset)
    assert offsets(cli, "report") == [3]
    rows = cli.rows("group", "reset", "report", "Orders", "--to", "begin", "--yes")
    assert rows == [{"topic": "Orders", "broker": "broker-a", "queueId": 0, "offset": 0}]
    assert offsets(cli, "report") == [0]
    assert cli.ok(*line, "3").endswith("from 0 to 3\n")  # also while the broker keeps the reset for members
    assert offsets(cli, "report") == [3]
    assert cli.rows("group", "reset", "report", "Orders", "--to", "end", "--yes")[0]["offset"] == 4
    assert cli.rows("group", "reset", "report", "Orders", "--to", "1h", "--yes")[0]["offset"] == 0
    assert offsets(cli, "report") == [0]


def test_an_offset_that_a_member_has_overwritten_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Offsets, "commit", lambda *arguments: None)  # what a member did at once is seen like this
    said = cli.fails("group", "commit", "billing", "Orders", "-b", "broker-a", "-q", "0", "-o", "1", "--yes")
    assert "broker-a still has the offset 4: a running member has committed it" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["group", "get", "unknown"], '"rocketpy group list" shows the groups'),
        (["group", "members", "unknown"], "no broker has the group unknown"),
        (["group", "topics", "unknown"], "no broker has the group unknown"),
        (["group", "state", "billing", "nobody"], "the group billing has no member 'nobody'"),
        (["group", "update", "unknown", "--no-consume"], "no broker has the group unknown"),
        (["group", "delete", "unknown", "--yes"], "no broker has the group unknown"),
        (["group", "get", "bad name"], "bad name"),
        (["group", "create", "g", "--max-retries", "-2"], "max_retries must be"),
        (["group", "create", "g", "--consume-timeout", "5"], "consume_timeout must be"),
        (["group", "reset", "unknown", "Orders", "--to", "end", "--yes"], "no broker has the group unknown"),
        (["group", "reset", "billing", "Unknown", "--to", "end", "--yes"], "the topic Unknown does not exist"),
        (["group", "reset", "billing", "Orders", "--to", "soon", "--yes"], "--to, unless it is begin or end, must be"),
        (["group", "clone", "billing", "unknown", "Orders", "--yes"], "no broker has the group unknown"),
        (["group", "delete", "TOOLS_CONSUMER", "--yes"], "a group of RocketMQ's own"),
    ],
)
def test_bad_input_is_refused(cli: Cli, line: list[str], said: str) -> None:
    assert said in cli.fails(*line)


def test_a_foreign_queue_is_refused(cli: Cli) -> None:
    line = ["group", "commit", "billing", "Orders", "--offset", "0", "--yes"]
    assert "there is no broker 'broker-x'" in cli.fails(*line, "--broker", "broker-x", "--queue", "0")
    assert "there is no Orders@broker-a:77" in cli.fails(*line, "--broker", "broker-a", "--queue", "77")


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        (["delete", "billing"], "Delete the group billing?"),
        (["reset", "billing", "Orders", "--to", "begin"], "0 messages behind in Orders, to begin?"),
        (["clone", "billing", "billing", "Orders"], "to those of billing?"),
        (["commit", "billing", "Orders", "-b", "broker-a", "-q", "0", "-o", "0"], "queue 0 of broker-a, from 4 to 0?"),
    ],
)
def test_what_cannot_be_brought_back_asks_first(cli: Cli, line: list[str], asked: str) -> None:
    said = cli.fails("group", *line)
    assert said.startswith("rocketpy: error: nothing was changed: there is no terminal to ask")
    assert asked in said
    assert offsets(cli, "billing") == [4]
