"""The commands of mqadmin about messages, with its option letters."""

from __future__ import annotations

import json

import pytest

from rocketpy.cli.mqadmin.messages import MESSAGES
from rocketpy.sync import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module", autouse=True)
def _messages(cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Orders", queues=1)
    for number in range(5):
        cluster.send(Message("Orders", b"%d" % number, tags="odd" if number % 2 else "even", keys=[f"o{number}"]))


def bodies(cli: Cli, *words: str) -> list[str]:
    return [each["body"] for each in cli.rows(*words)]


def test_messages_are_found(cli: Cli, cluster: BlockingLocalCluster) -> None:
    sent = cluster.messages("Orders")[1]
    assert bodies(cli, "queryMsgById", "-i", sent.offset_message_id) == ["1"]
    assert bodies(cli, "queryMsgById", "-i", sent.message_id, "-t", "Orders") == ["1"]
    assert bodies(cli, "queryMsgByKey", "-t", "Orders", "-k", "o1", "-b", "0", "-m", "3") == ["1"]
    assert bodies(cli, "queryMsgByUniqueKey", "-t", "Orders", "-i", sent.message_id, "-a") == ["1"]
    place = ("-t", "Orders", "-b", "broker-a", "-i", "0")
    assert bodies(cli, "queryMsgByOffset", *place, "-o", "3") == ["3"]
    assert bodies(cli, "queryMsgByOffset", *place, "-o", "3", "-f", "UTF-8") == ["3"]
    assert "an offset must be" in cli.fails("queryMsgByOffset", *place, "-o", "-3")


def test_messages_are_printed(cli: Cli) -> None:
    assert bodies(cli, "printMsg", "-t", "Orders", "-s", "odd", "-d", "true") == ["1", "3"]
    assert bodies(cli, "printMsg", "-t", "Orders", "-b", "2026-05-04#12:30:00:000", "-e", "now") != []
    queue = ("-t", "Orders", "-i", "0")
    assert bodies(cli, "printMsgByQueue", *queue, "-a", "broker-a", "-p", "true") == ["0", "1", "2", "3", "4"]
    assert bodies(cli, "consumeMessage", *queue, "-b", "broker-a", "-o", "2", "-c", "2", "-g", "any") == ["2", "3"]
    assert bodies(cli, "consumeMessage", "-t", "Orders") == ["0", "1", "2", "3", "4"]
    assert "pass -o or -s" in cli.fails("consumeMessage", *queue, "-o", "2", "-s", "now")


def test_messages_are_sent(cli: Cli, cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Sent", queues=2)
    words = ("sendMessage", "-t", "Sent", "-p", "-one-", "-k", "k", "-c", "tag")
    cli.ok(*words)
    (row,) = cli.rows(*words, "-b", "broker-a", "-i", "1")
    assert (row["broker"], row["queueId"]) == ("broker-a", 1)
    assert {(each.body, each.tags, each.keys) for each in cluster.messages("Sent")} == {(b"-one-", "tag", ("k",))}
    assert "-b needs the number" in cli.fails(*words, "-b", "broker-a")
    sent = cluster.messages("Sent")[0]
    again = ("queryMsgById", "-i", sent.offset_message_id, "-s", "true")
    assert "pass --yes" in cli.fails(*again)
    cli.ok(*again, "--yes")
    assert len(cluster.messages("Sent")) == 3
    *_, total = cli.lines("checkMsgSendRT", "-t", "Sent", "-a", "5", "-s", "100")
    assert ": 5 messages, " in total


def test_having_a_member_consume_needs_the_member(cli: Cli, cluster: BlockingLocalCluster) -> None:
    sent = cluster.messages("Orders")[0]
    assert "pass -g and -d together" in cli.fails("queryMsgById", "-i", sent.offset_message_id, "-g", "billing")
    words = ("-t", "Orders", "-i", sent.message_id, "-g", "billing", "-d", "nobody", "--yes")
    assert "no broker has the group billing" in cli.fails("queryMsgByUniqueKey", *words)
    assert "trace" in cli.fails("queryMsgTraceById", "-i", sent.message_id)


def test_help_names_our_command(cli: Cli) -> None:
    for name, alias in MESSAGES.items():
        assert json.dumps(f"rocketpy {alias.command}") in " ".join(cli.ok(name, "--help").split())
