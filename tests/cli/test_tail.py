"""`rocketpy tail` as a user calls it: formats, bad input, pipes that close, Ctrl-C."""

from __future__ import annotations

import json

import pytest

from rocketpy.sync import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module", autouse=True)
def _messages(cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Orders", queues=1)
    for number in range(12):
        cluster.send(
            Message("Orders", b'{"id": %d}' % number, tags="odd" if number % 2 else "even", keys=[f"o{number}"])
        )


def test_the_last_ten(cli: Cli) -> None:
    lines = cli.ok("tail", "Orders").splitlines()
    assert len(lines) == 10
    assert lines[-1].endswith('  broker-a:0+11  tags=odd  keys=o11  {"id": 11}')


def test_as_json_it_is_what_send_reads(cli: Cli) -> None:
    rows = cli.rows("tail", "Orders", "-c", "2")
    assert [(each["queueOffset"], each["body"], each["keys"]) for each in rows] == [
        (10, '{"id": 10}', ["o10"]),
        (11, '{"id": 11}', ["o11"]),
    ]
    assert rows == [json.loads(line) for line in cli.ok("tail", "Orders", "-c", "2", "--format", "json").splitlines()]


def test_filters_and_places(cli: Cli) -> None:
    def bodies(*options: str) -> list[int]:
        return [json.loads(line)["id"] for line in cli.ok("tail", "Orders", "--format", "value", *options).splitlines()]

    assert bodies("--tags", "odd", "-c", "2") == [9, 11]
    assert bodies("--sql", "TAGS = 'even'", "-c", "1") == [10]
    assert bodies("--key", "o3") == [3]
    assert bodies("--from", "10") == [10, 11]
    assert bodies("--from", "begin", "-c", "3") == [0, 1, 2]
    assert bodies("--from", "1h", "--queue", "0", "--broker", "broker-a") == list(range(12))
    assert bodies("--from", "end") == []


def test_bad_input_is_told_in_one_line(cli: Cli) -> None:
    for words, said in (
        (["Nowhere"], "the topic Nowhere does not exist: create it, or let brokers create topics"),
        (["no topic"], "no topic"),
        (["Orders", "--from", "-1"], "the offset -1 is negative: leave --from out for the last messages"),
        (["Orders", "--from", "soon"], "--from, unless it is begin, end or an offset, must be a date"),
        (["Orders", "-q", "9"], "the topic Orders has no queue 9; its queues are 0"),
        (["Orders", "-q", "-1"], "the topic Orders has no queue -1; its queues are 0"),
        (["Orders", "-b", "broker-z"], "the topic Orders has no queue on a broker 'broker-z'; it is on broker-a"),
        (["Orders", "-c", "0"], "the number of messages must be between 1 and 100000, not 0"),
        (["Orders", "--sql", "a ="], "the expression cannot be read"),
        (["Orders", "--tags", "a", "--sql", "a = 1"], "pass --tags or --sql, not both"),
    ):
        line = cli.fails("tail", *words)
        assert line.startswith("rocketpy: error: ")
        assert said in line
        assert line.count("\n") == 1
