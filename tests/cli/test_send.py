"""`rocketpy send`: from arguments, files and pipes; and what it says if that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from rocketpy.cli.traffic.inputs import TIMES, Pattern
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli

_numbers = count(1)


@pytest.fixture
def topic(cluster: BlockingLocalCluster) -> Iterator[str]:
    name = f"Sent{next(_numbers)}"
    cluster.create_topic(name, queues=2)
    yield name
    cluster.heal()


def stored(cluster: BlockingLocalCluster, topic: str) -> list[bytes]:
    return sorted(each.body for each in cluster.messages(topic))


def test_one_message_with_everything(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    words = ("--tags", "paid", "--key", "k1", "--key", "k2", "--property", "a=b=c", "--sharding-key", "s")
    (row,) = cli.rows("send", topic, "grüße", *words)
    (found,) = cluster.messages(topic)
    assert (found.body.decode(), found.tags, found.keys) == ("grüße", "paid", ("k1", "k2"))
    assert (dict(found.properties), found.sharding_key) == ({"a": "b=c"}, "s")
    assert row["messageId"] == found.message_id
    assert (row["status"], row["topic"], row["broker"]) == ("SEND_OK", topic, "broker-a")
    assert "SEND_OK" in cli.ok("send", topic, "again")


def test_a_whole_file_and_a_whole_pipe(cli: Cli, cluster: BlockingLocalCluster, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"\x00\xff\n")
    cli.ok("send", topic, "--file", str(path))
    assert cli.run("send", topic, typed="all\nof it\n").exit_code == 0
    assert stored(cluster, topic) == [b"\x00\xff\n", b"all\nof it\n"]


def test_lines_of_a_pipe_and_of_a_file(cli: Cli, cluster: BlockingLocalCluster, topic: str, tmp_path: Path) -> None:
    result = cli.run("send", topic, "--lines", "--tags", "t", typed="one\r\n\ntwo\nthree")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("3 messages stored in ")
    assert {each.tags for each in cluster.messages(topic)} == {"t"}
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(5_000)))
    (row,) = cli.rows("send", topic, "--lines", "--file", str(path), "--skip", "2")
    assert (row["messages"], row["bytes"]) == (4_998, path.stat().st_size - 4)
    assert len(stored(cluster, topic)) == 5_001


def test_a_queue_is_filled_in_order(cli: Cli, topic: str) -> None:
    lines = "".join(f"{number:04d}\n" for number in range(2_000))
    assert cli.run("send", topic, "--lines", "--queue", "1", typed=lines).exit_code == 0
    found = cli.ok("tail", topic, "--from", "begin", "-q", "1", "--format", "value")
    assert found == lines


def test_what_tail_prints_is_sent_again(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    cli.ok("send", topic, "one", "--tags", "t", "--key", "k", "--property", "a=b")
    line = cli.ok("tail", topic, "--json")
    assert cli.run("send", topic, "--json-lines", "--tags", "other", "--property", "c=d", typed=line).exit_code == 0
    first, second = cluster.messages(topic)
    assert (first.body, first.tags, first.keys) == (second.body, second.tags, second.keys) == (b"one", "t", ("k",))
    assert sorted([dict(first.properties), dict(second.properties)], key=len) == [{"a": "b"}, {"a": "b", "c": "d"}]
    line = cli.ok("message", "view", first.message_id, "-t", topic, "--json")
    assert cli.run("send", topic, "--json-lines", typed=line).exit_code == 0


def test_a_line_that_has_a_time_of_its_own_takes_no_other_one(
    cli: Cli, cluster: BlockingLocalCluster, topic: str
) -> None:
    due = wall_ms() + 3_600_000
    line = json.dumps({"body": "x", "deliverAt": due})
    for option in (["--delay-level", "1"], ["--delay", "0.05"]):
        assert cli.run("send", topic, "--json-lines", *option, typed=line).exit_code == 0
    assert stored(cluster, topic) == []
    wanted = Pattern(topic, timing={"delay_level": 3})
    assert wanted.of_record(line.encode()).wire_properties.keys() & TIMES == {"TIMER_DELIVER_MS"}
    assert wanted.of_record(b'{"body": "x"}').wire_properties.keys() & TIMES == {"DELAY"}


def test_a_delay(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    cli.ok("send", topic, "later", "--delay", "1d")
    assert stored(cluster, topic) == []
    for options, said in (
        (["--delay", "1", "--delay-level", "2"], "delay"),
        (["--delay", "soon"], "--delay must be seconds, or a number with ms, s, m, h or d"),
        (["--deliver-at", "soon"], "--deliver-at must be a date"),
    ):
        assert said in cli.fails("send", topic, "x", *options)


def test_bad_input_sends_nothing(cli: Cli, cluster: BlockingLocalCluster, topic: str, tmp_path: Path) -> None:
    for words, said in (
        (["Nowhere", "x"], "the topic Nowhere does not exist"),
        (["no topic", "x"], "no topic"),
        ([topic, ""], "the body is empty"),
        ([topic, "x", "--lines"], "pass BODY, or an input"),
        ([topic, "--lines", "--json-lines"], "not both"),
        ([topic, "x", "--key", "a b"], "contains a space"),
        ([topic, "x", "--property", "a"], "--property must be like key=value"),
        ([topic, "x", "--property", "KEYS=a"], "used by RocketMQ itself"),
        ([topic, "x", "--queue", "7"], f"the topic {topic} has no queue 7; its queues are 0, 1"),
        ([topic, "x", "--queue", "-1"], "--queue must be a number, or a broker and a number"),
        ([topic, "x", "--queue", "broker-z:0"], "no queue on a broker 'broker-z'"),
        ([topic, "--file", str(tmp_path / "none")], "none cannot be read: No such file or directory"),
        ([topic, "--file", str(tmp_path)], "cannot be read: Is a directory"),
        ([topic], "the input is empty"),
        ([topic, "--lines", "--skip", "-1"], "--skip must not be negative"),
        ([topic, "--lines", "--in-flight", "0"], "--in-flight must be between 1 and 1024"),
    ):
        assert said in cli.fails("send", *words), words
    assert stored(cluster, topic) == []
    assert cluster.messages(topic) == []


def test_a_line_that_is_no_message_ends_it_after_those_before(
    cli: Cli, cluster: BlockingLocalCluster, topic: str
) -> None:
    lines = [json.dumps({"body": str(number)}) for number in range(600)]
    result = cli.run("send", topic, "--json-lines", typed="\n".join([*lines, "{", *lines]))
    assert (result.exit_code, result.stdout) == (1, "")
    said, error = result.stderr.splitlines()
    assert said == "rocketpy: 600 messages stored; the next line is 601. To continue there: --skip 600"
    assert error.startswith("rocketpy: error: line 601: this is not JSON: ")
    assert len(stored(cluster, topic)) == 600


def test_a_broker_that_refuses_ends_it(cli: Cli, cluster: BlockingLocalCluster, topic: str) -> None:
    cluster.refuse_sends(1000, code=ResponseCode.NO_PERMISSION)
    result = cli.run("send", topic, "--lines", typed="one\ntwo\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("rocketpy: 0 messages stored; the next line is 1. To continue there: --skip 0\n")
    cluster.heal()
    assert stored(cluster, topic) == []
    cluster.refuse_sends(1000, code=ResponseCode.NO_PERMISSION)
    assert "rocketpy: error: " in cli.fails("send", topic, "one")
