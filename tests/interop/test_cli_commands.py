"""The commands of `rocketpy` that other files leave out, on Apache's servers and on ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.sync import Message, Producer, PushConsumer
from tests.cli.kit import Cli
from tests.interop.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("for Apache's servers and clients")]

BROKER = "broker-a"


@pytest.fixture(params=["apache_cluster", "our_servers"])
def cluster(apache: Apache, request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def cli(cluster: Cluster) -> Cli:
    return Cli(NAMESRV_ADDR=cluster.namesrv)


@pytest.fixture
def topic(cli: Cli, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("Every")
    cli.ok("topic", "create", name, "--queues", "1", "--timeout", "10")
    return name


@pytest.fixture
def version(cli: Cli) -> str:
    """As the broker tells it; those of 4.x fail until they have counted for the first time."""
    return str(eventually(lambda: runtime(cli), "the state of the broker", 30)["version"])


def runtime(cli: Cli) -> dict[str, Any] | None:
    result = cli.run("broker", "runtime", "--json")
    return None if result.exit_code else json.loads(result.stdout.splitlines()[0])


def in_5(result: Result, version: str) -> None:
    """It is done by brokers of 5.x, and by those of 4.x it is refused, as they do not have the request."""
    is_4 = version.startswith("V4")
    assert result.exit_code == (1 if is_4 else 0), result.output
    assert ("not supported" in result.stderr) is is_4


def test_clients_are_shown(cli: Cli, cluster: Cluster, topic: str, fresh_name: Callable[[str], str]) -> None:
    group, shop, traces = fresh_name("group"), fresh_name("shop"), fresh_name("Traces")
    cli.ok("topic", "create", traces, "--queues", "1", "--timeout", "10")
    with (
        Producer(shop, namesrv=cluster.namesrv, enable_msg_trace=True, trace_topic=traces) as producer,
        PushConsumer(group, namesrv=cluster.namesrv) as consumer,
    ):
        consumer.subscribe(topic, lambda message: None)
        consumer.wait_assigned()
        sent = producer.send(Message(topic, b"order"))
        [found] = eventually(lambda: cli.rows("consumer", "connections", group) or None, "a member", 30)
        member = found["clients"][0]["clientId"]
        made = [row["clientId"] for row in cli.rows("producer", "connections", shop)]
        assert made
        assert set(made) <= {row["clientId"] for row in cli.rows("producer", "list")}
        assert {"topic": topic} in eventually(lambda: cli.rows("consumer", "topics", group) or None, "topics", 30)
        assert {"topic": topic} in cli.rows("group", "topics", group)
        state = cli.rows("consumer", "state", group, member)[0]
        assert topic in [each["topic"] for each in state["queues"]]
        for line in (["consumer", "offsets"], ["group", "offsets"]):
            [row] = eventually(lambda line=line: cli.rows(*line, group, topic) or None, "an offset", 30)
            assert (row["clientId"], row["broker"], row["queueId"]) == (member, BROKER, 0)
        line = ["message", "consume", sent.message_id, "-t", topic, "-g", group, "-i", member, "--yes"]
        assert cli.rows(*line)[0]["outcome"] == "CR_SUCCESS"
        assert eventually(lambda: committed(cli, group, topic) or None, "the committed offset", 30) == 1
    [row] = cli.rows("message", "track", sent.message_id, "-t", topic)
    assert (row["group"], row["status"]) == (group, "consumed")
    line = ["trace", sent.message_id, "--trace-topic", traces]
    [record] = eventually(lambda: cli.rows(*line) or None, "the trace in the index", 30)
    assert (record["group"], record["topic"]) == (shop, topic)


def test_offsets_are_set(cli: Cli, topic: str, fresh_name: Callable[[str], str]) -> None:
    group, copy = fresh_name("group"), fresh_name("copy")
    for name in (group, copy):
        cli.ok("group", "create", name)
    cli.ok("send", topic, "one")
    cli.ok("group", "commit", group, topic, "-b", BROKER, "-q", "0", "-o", "1", "--yes")
    assert committed(cli, group, topic) == 1
    assert cli.rows("group", "lag", group, "--topic", topic)[0]["lag"] == 0
    cli.ok("group", "clone", group, copy, topic, "--yes")
    assert committed(cli, copy, topic) == 1
    assert cli.rows("topic", "offsets", topic, "1h")[0]["offset"] == 0


def test_settings_are_changed(cli: Cli, topic: str, version: str, fresh_name: Callable[[str], str]) -> None:
    group = fresh_name("group")
    cli.ok("group", "create", group)
    assert cli.rows("group", "update", group, "--max-retries", "5")[0]["maxRetries"] == 5
    for word in ("no", "yes"):
        in_5(cli.run("group", "set-readable", group, topic, word), version)
    assert cli.rows("topic", "update", topic, "--queues", "2")[0]["writeQueues"] == 2
    cli.ok("broker", "update-config", "defaultTopicQueueNums=8")
    assert cli.rows("broker", "config", BROKER, "defaultTopicQueueNums")[0]["settings"] == {
        "defaultTopicQueueNums": "8"
    }
    cli.ok("namesrv", "update-config", "orderMessageEnable=true")
    assert cli.rows("namesrv", "config", "orderMessageEnable")[0]["settings"] == {"orderMessageEnable": "true"}
    cli.ok("namesrv", "update-config", "orderMessageEnable=false")  # as it was, for the tests that share the servers
    for word in ("no", "yes"):
        cli.ok("broker", "set-writable", BROKER, word)
    cli.ok("send", topic, "one")
    spans = eventually(lambda: cli.rows("broker", "stats", BROKER, "TOPIC_PUT_NUMS", topic) or None, "counts", 30)
    assert [row["span"] for row in spans] == ["minute", "hour", "day"]


def test_name_servers_keep_keys(cli: Cli, cluster: Cluster, topic: str) -> None:
    assert [row["address"] for row in cli.rows("namesrv", "list")] == [cluster.namesrv]
    cli.ok("namesrv", "kv", "put", "room", topic, "1")
    assert topic in cli.ok("namesrv", "kv", "list", "room", "--json")
    assert '"1"' in cli.ok("namesrv", "kv", "get", "room", topic, "--json")
    cli.ok("namesrv", "kv", "delete", "room", topic, "--yes")
    assert topic not in cli.ok("namesrv", "kv", "list", "room", "--json")
    cli.ok("namesrv", "order", topic, f"{BROKER}=1")
    cli.ok("namesrv", "order", topic, "--delete", "--yes")


def test_brokers_clean_up(cli: Cli) -> None:
    cli.ok("broker", "delete-expired-queues", "--yes")
    cli.ok("broker", "delete-unused-queues", "--yes")
    cli.ok("broker", "delete-expired-files", "--yes")


def committed(cli: Cli, group: str, topic: str) -> int:
    return max((row["committed"] for row in cli.rows("lag", group, "--topic", topic)), default=0)
