"""`rocketpy message`, `dlq` and `trace`: messages are found, resent and tracked, dead letters replayed."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from rocketpy.results import ConsumeFromWhere, RetryLater
from rocketpy.sync import Message, Producer, PushConsumer
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
_numbers = count(1)


@pytest.fixture
def topic(cluster: BlockingLocalCluster) -> str:
    """With five messages in one queue."""
    name = f"Found{next(_numbers)}"
    cluster.create_topic(name, queues=1)
    for number in range(5):
        cluster.send(Message(name, b'{"id": %d}' % number, tags="t", keys=[f"o{number}", "all"]))
    return name


# --- finding -------------------------------------------------------------------------------------------


def test_one_message_by_its_ids(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    sent = cluster.messages(topic)[2]
    for words in ([sent.message_id, "--topic", topic], [sent.offset_message_id]):
        (row,) = cli.rows("message", "view", *words)
        assert (row["body"], row["queueOffset"], row["messageId"]) == ('{"id": 2}', 2, sent.message_id)
        assert row["systemProperties"]["KEYS"] == "o2 all"
    lines = cli.lines("message", "view", sent.offset_message_id)
    assert lines[-1] == '{"id": 2}'
    assert any(line.split() == ["keys", "o2", "all"] for line in lines)


def test_the_body_of_a_message_into_a_file_or_a_pipe(
    cli: Cli, cluster: BlockingLocalCluster, topic: str, tmp_path: Path
) -> None:
    cluster.send(Message(topic, b"\xff\x00\n"))
    (sent,) = (each for each in cluster.messages(topic) if each.body == b"\xff\x00\n")
    path = tmp_path / "body"
    assert cli.ok("message", "view", sent.offset_message_id, "--body", str(path)) == ""
    assert path.read_bytes() == b"\xff\x00\n"
    assert cli.run("message", "view", sent.offset_message_id, "--body", "-").stdout_bytes == b"\xff\x00\n"
    said = cli.fails("message", "view", sent.offset_message_id, "--body", str(tmp_path))
    assert "cannot be written: Is a directory" in said


def test_messages_by_key_time_and_queue(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    def offsets(*words: str) -> list[int]:
        return [each["queueOffset"] for each in cli.rows("message", *words)]

    assert offsets("query", topic, "o3") == [3]
    assert offsets("query", topic, "all", "-c", "2") == [0, 1]
    assert offsets("query", topic, "all", "--begin", "1h", "--end", "0s") == [0, 1, 2, 3, 4]
    assert offsets("query", topic, "--unique", cluster.messages(topic)[1].message_id) == [1]
    assert offsets("query", topic, "none") == []
    assert cli.ok("message", "query", topic, "none") == "no messages with that key\n"
    assert offsets("by-time", topic, "1h") == [0, 1, 2, 3, 4]
    assert offsets("by-time", topic, "2h", "1h") == []
    assert offsets("read", topic, "-b", "broker-a", "-q", "0", "--begin", "3") == [3, 4]
    assert offsets("read", topic, "-b", "broker-a", "-q", "0", "--end", "2", "--tags", "t || u") == [0, 1]
    (title, first, *_) = cli.lines("message", "query", topic, "o0")
    assert title.split() == ["stored", "(UTC)", "broker", "queue", "offset", "message", "id", "tags", "keys", "body"]
    assert first.endswith('t     o0 all  {"id": 0}')


def test_what_is_not_there_is_told_in_one_line(cli: Cli, topic: str) -> None:
    for words, said in (
        (["view", "nonsense"], "is not an offset message id"),
        (["view", "7F00000100002A9F0000000000000000"], "not registered"),
        (["view", "AC1100010002" + "0" * 20, "--topic", "Nowhere"], "the topic Nowhere does not exist"),
        (["query", "Nowhere", "k"], "the topic Nowhere does not exist"),
        (["query", topic, ""], "a key must be"),
        (["query", topic, "k", "-c", "0"], "max_messages must be"),
        (["by-time", topic, "soon"], "the begin must be a date"),
        (["by-time", topic, "1h", "2h"], "end must not be before begin"),
        (["read", topic, "-b", "broker-a", "-q", "1"], f"the topic {topic} has no queue 1; its queues are 0"),
        (["read", topic, "-b", "broker-z", "-q", "0"], "no queue on a broker 'broker-z'"),
        (["read", topic, "-b", "broker-a", "-q", "0", "--begin", "-1"], "an offset must be a whole number"),
        (["track", "nonsense"], "is not an offset message id"),
        (["resend", "nonsense", "--yes"], "is not an offset message id"),
    ):
        line = cli.fails("message", *words)
        assert line.startswith("rocketpy: error: ")
        assert said in line
        assert line.count("\n") == 1


# --- again ---------------------------------------------------------------------------------------------


def test_resending_asks_first(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    sent = cluster.messages(topic)[0]
    line = cli.fails("message", "resend", sent.offset_message_id)
    assert f'there is no terminal to ask "Send {sent.message_id} of {topic} again, to {topic}?"; pass --yes' in line
    assert len(cluster.messages(topic)) == 5
    (row,) = cli.rows("message", "resend", sent.message_id, "-t", topic, "--yes")
    assert (row["status"], row["queueOffset"], row["messageId"]) == ("SEND_OK", 5, sent.message_id)
    assert cluster.messages(topic)[5].keys == ("o0", "all")


def test_nothing_is_resent_if_one_message_is_not_there(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    sent = cluster.messages(topic)
    cluster.create_topic("Elsewhere", queues=1)
    missing = sent[0].offset_message_id[:-4] + "FFFF"
    ids = [sent[0].offset_message_id, sent[1].offset_message_id]
    assert "it may have been deleted" in cli.fails("message", "resend", *ids, missing, "--to", "Elsewhere", "--yes")
    assert cluster.messages("Elsewhere") == []
    rows = cli.rows("message", "resend", *ids, "--to", "Elsewhere", "--yes")
    assert [each["topic"] for each in rows] == ["Elsewhere", "Elsewhere"]
    assert [each.body for each in cluster.messages("Elsewhere")] == [b'{"id": 0}', b'{"id": 1}']


def test_a_resend_that_fails_on_the_way_says_how_far_it_came(
    cli: Cli, cluster: BlockingLocalCluster, topic: str
) -> None:
    ids = [each.offset_message_id for each in cluster.messages(topic)]
    cluster.refuse_sends(1_000, code=ResponseCode.NO_PERMISSION)
    try:
        result = cli.run("message", "resend", *ids[:2], "--yes")
    finally:
        cluster.heal()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == "rocketpy: 0 of 2 messages sent again before this"
    assert "the topic Nowhere does not exist" in cli.fails("message", "resend", *ids, "--to", "Nowhere", "--yes")
    assert len(cluster.messages(topic)) == 5


def test_what_groups_did_and_having_one_consume_again(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    got: list[bytes] = []
    sent = cluster.messages(topic)[0]
    group = f"group_of_{topic}"
    assert cli.ok("message", "track", sent.offset_message_id) == "no group consumes its topic\n"
    with PushConsumer(group, namesrv=cluster.name_server_addresses, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, lambda message: got.append(message.body))
        cluster.wait_consumed(group, topic)
        assert [(each["group"], each["status"]) for each in cli.rows("message", "track", sent.offset_message_id)] == [
            (group, "consumed")
        ]
        (member,) = cli.rows("group", "members", group)[0]["clients"]
        words = ("message", "consume", sent.offset_message_id, "-g", group, "-i", member["clientId"])
        assert "consume it again" not in cli.fails(*words)
        (row,) = cli.rows(*words, "--yes")
        assert row["outcome"] == "CR_SUCCESS"
        assert got.count(b'{"id": 0}') == 2
        assert "has no member 'nobody' that is connected" in cli.fails(*words[:-1], "nobody", "--yes")


# --- dead letters --------------------------------------------------------------------------------------


def test_dead_letters_are_listed_and_sent_again(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    group = f"group_of_{topic}"
    with PushConsumer(group, namesrv=cluster.name_server_addresses, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, lambda message: RetryLater(-1))
        cluster.wait_dead_letters(group, 5)
    rows = cli.rows("dlq", "list", group, "-c", "3")
    assert [(each["originTopic"], each["topic"]) for each in rows] == [(topic, f"%DLQ%{group}")] * 3
    assert topic in cli.lines("dlq", "list", group)[1]
    line = cli.fails("dlq", "replay", group)
    assert f'"Send 5 dead letters of {group} again: 5 to {topic}?"' in line
    assert cli.rows("dlq", "replay", group, "--dry-run") == [
        {"replayed": 5, "skipped": 0, "remaining": 0, "topics": {topic: 5}}
    ]
    assert len(cluster.messages(topic)) == 5
    (row,) = cli.rows("dlq", "replay", group, "--limit", "2", "--yes")
    assert (row["replayed"], row["remaining"]) == (2, 3)
    assert cli.lines("dlq", "replay", group, "--yes")[1].split() == ["3", "0", "0", f"{topic}:", "3"]
    assert len(cluster.messages(topic)) == 10
    assert cli.rows("dlq", "replay", group) == [{"replayed": 0, "skipped": 0, "remaining": 0, "topics": {}}]


def test_a_group_that_has_never_consumed_has_no_dead_letters(cli: Cli) -> None:
    cli.ok("group", "create", "idle")
    assert cli.ok("dlq", "list", "idle") == "the group idle has no dead letters\n"
    assert cli.rows("dlq", "replay", "idle") == [{"replayed": 0, "skipped": 0, "remaining": 0, "topics": {}}]


def test_groups_and_limits_that_are_none(cli: Cli) -> None:
    for words, said in (
        (["list", "nobody"], "no broker has the group nobody"),
        (["replay", "nobody"], "no broker has the group nobody"),
        (["list", "no group"], "no group"),
        (["list", "%DLQ%nobody"], "leave out the beginning"),
        (["replay", "nobody", "--limit", "0"], "limit must be an int of 1 or more"),
        (["list", "nobody", "-c", "-1"], "limit must be"),
    ):
        assert said in cli.fails("dlq", *words), words


# --- traces --------------------------------------------------------------------------------------------


def test_the_trace_of_a_message(cli: Cli) -> None:
    with BlockingLocalCluster(trace_topic_enable=True) as traced:
        beside = Cli(traced)
        traced.create_topic("Orders", queues=1)
        with Producer("traced", namesrv=traced.name_server_addresses, enable_msg_trace=True) as producer:
            sent = producer.send(Message("Orders", b"one", keys=["a-key"]))
        for key in (sent.message_id, "a-key"):
            (row,) = beside.rows("trace", key)
            assert (row["kind"], row["group"], row["topic"], row["success"]) == ("Pub", "traced", "Orders", True)
            assert row["messageType"] == "NORMAL"
        assert "Pub" in beside.lines("trace", sent.message_id)[1]
        assert beside.ok("trace", "unknown") == "no traced client has recorded this message\n"
        assert "a key must be" in beside.fails("trace", "")
    assert "no traced client has written to it" in cli.fails("trace", "a-key")
