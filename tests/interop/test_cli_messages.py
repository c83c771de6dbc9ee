"""The command `rocketpy` on Apache's servers: messages are followed, sent, found, resent, traced and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from rocketpy import Admin
from rocketpy.cli.traffic.tailing import Request, Tail
from rocketpy.results import ConsumeFromWhere, RetryLater
from rocketpy.sync import Message, Producer, PushConsumer
from tests.cli.kit import Cli
from tests.interop.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy import MessageExt
    from tests.interop.apache import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's servers")]

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.fixture
def cli(apache_cluster: Cluster) -> Cli:
    return Cli(NAMESRV_ADDR=apache_cluster.namesrv)


@pytest.fixture
def topic(apache_cluster: Cluster, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("Shown")
    apache_cluster.create_topic(name, queues=2)
    return name


def values(cli: Cli, topic: str, *words: str) -> list[str]:
    return cli.lines("tail", topic, "--format", "value", *words)


def settled(cli: Cli, topic: str, count: int) -> None:
    """Wait until the queues have so many messages: Apache's broker builds them after it has answered a send."""
    eventually(lambda: len(values(cli, topic, "--from", "begin")) == count or None, f"{count} messages", 30)


def test_lines_are_sent_and_shown(cli: Cli, topic: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(500))
    result = cli.run("send", topic, "--lines", "--tags", "many", "--property", "a=1", typed=lines)
    assert (result.exit_code, result.stderr) == (0, "")
    (row,) = cli.rows("send", topic, "one", "--tags", "one", "--key", "k1", "--queue", "1")
    assert (row["status"], row["queueId"]) == ("SEND_OK", 1)
    settled(cli, topic, 501)
    assert sorted(values(cli, topic, "--from", "begin")) == sorted([*lines.splitlines(), "one"])
    assert values(cli, topic, "-c", "1") == ["one"]
    assert values(cli, topic, "--tags", "one || none") == ["one"]
    assert eventually(lambda: values(cli, topic, "--key", "k1") or None, "message in the index", 30) == ["one"]
    assert len(values(cli, topic, "-c", "30", "--sql", "a = 1")) == 30
    assert values(cli, topic, "--from", "1h", "-q", "1")[-1] == "one"


def test_what_is_printed_is_sent_again_and_found(cli: Cli, topic: str, fresh_name: Callable[[str], str]) -> None:
    (sent,) = cli.rows("send", topic, "one", "--tags", "t", "--key", "k", "--property", "a=b")
    settled(cli, topic, 1)
    line = cli.ok("tail", topic, "--json")
    assert cli.run("send", topic, "--json-lines", typed=line).exit_code == 0
    settled(cli, topic, 2)
    first, second = cli.rows("tail", topic)
    assert [first[name] for name in ("body", "tags", "keys")] == [second[name] for name in ("body", "tags", "keys")]
    assert cli.rows("message", "view", sent["offsetMessageId"], "-t", topic)[0]["body"] == "one"
    assert eventually(
        lambda: len(cli.rows("message", "query", topic, "k")) == 2 or None, "two messages in the index", 30
    )
    assert cli.rows("message", "view", sent["messageId"], "-t", topic)[0]["body"] == "one"
    place = ("-b", sent["broker"], "-q", str(sent["queueId"]))
    assert cli.rows("message", "read", topic, *place, "-c", "1")[0]["body"] == "one"
    assert len(cli.rows("message", "by-time", topic, "1h")) == 2
    cli.ok("message", "resend", sent["offsetMessageId"], "-t", topic, "--yes")
    settled(cli, topic, 3)
    assert len(cli.rows("tail", topic)) == 3
    assert cli.rows("queryMsgByKey", "-t", topic, "-k", "k")[0]["body"] == "one"


def test_what_is_wrong_is_told(cli: Cli, topic: str, fresh_name: Callable[[str], str]) -> None:
    nowhere = fresh_name("Nowhere")
    for words, said in (
        (["tail", nowhere], f"the topic {nowhere} does not exist"),
        (["send", nowhere, "x"], f"the topic {nowhere} does not exist"),  # although this broker creates topics
        (["bench", nowhere], f"the topic {nowhere} does not exist"),
        (["tail", topic, "--sql", "a ="], "refused by"),
        (["tail", topic, "-q", "2"], f"the topic {topic} has no queue 2; its queues are 0, 1"),
        (["dlq", "list", nowhere], f"no broker has the group {nowhere}"),
    ):
        assert said in cli.fails(*words)


def test_a_topic_is_followed(apache_cluster: Cluster, topic: str) -> None:
    got: list[MessageExt] = []

    async def main() -> None:
        async with Admin(namesrv=apache_cluster.namesrv) as admin:
            tail = Tail(admin, Request(topic=topic, follow=True, count=5), got.extend, notes.append)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tail.run)
                await tail.ready.wait()
                await trio.to_thread.run_sync(send)
                with trio.fail_after(30):
                    while len(got) < 20:  # noqa: ASYNC110
                        await trio.sleep(0.05)
                nursery.cancel_scope.cancel()
            assert await admin.consumers.of_topic(topic) == ()

    def send() -> None:
        with Producer("shown", namesrv=apache_cluster.namesrv, send_timeout=10.0) as producer:
            for number in range(20):
                producer.send(Message(topic, b"%d" % number))

    notes: list[str] = []
    trio.run(main)
    assert sorted(int(each.body) for each in got) == list(range(20))
    assert notes == []


def test_dead_letters_are_listed_and_sent_again(cli: Cli, topic: str, fresh_name: Callable[[str], str]) -> None:
    group = fresh_name("given-up")
    cli.ok("group", "create", group)  # brokers create it only once they have heard of a member
    cli.ok("send", topic, "one")
    with PushConsumer(group, namesrv=cli.environment["NAMESRV_ADDR"], consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, lambda message: RetryLater(-1))
        (row,) = eventually(lambda: cli.rows("dlq", "list", group) or None, "dead letter", 60)
    assert (row["originTopic"], row["body"]) == (topic, "one")
    assert cli.rows("dlq", "replay", group, "--yes") == [
        {"replayed": 1, "skipped": 0, "remaining": 0, "topics": {topic: 1}}
    ]
    settled(cli, topic, 2)
    assert [each["body"] for each in cli.rows("tail", topic)] == ["one", "one"]


def test_a_load_is_measured(cli: Cli, topic: str) -> None:
    *_, total = cli.rows("bench", topic, "--messages", "500", "--in-flight", "16", "--consume")
    assert (total["messages"], total["failed"], total["arrived"]) == (500, 0, 500)
