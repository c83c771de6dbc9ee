"""`rocketpy bench`: what it prints, and what it refuses."""

from __future__ import annotations

import re

import pytest

from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module", autouse=True)
def _topic(cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Load", queues=2)


LINE = r"300 messages, [\d,]+ a second, [\d.]+ MB/s, ms: " + ", ".join(
    rf"{name} [\d.]+" for name in ("mean", "p50", "p95", "p99", "p99.9", "max")
)


def test_lines_for_people(cli: Cli, cluster: BlockingLocalCluster) -> None:
    before = len(cluster.messages("Load"))
    *_, total, arrived = cli.lines("bench", "Load", "--messages", "300", "--size", "100", "--consume")
    assert re.fullmatch(r"total in [\d.]+ s: " + LINE, total)
    assert arrived.startswith("arrived: 300 messages, ms: mean ")
    found = cluster.messages("Load")[before:]
    assert {len(each.body) for each in found} == {100}
    assert len(found) == 300


def test_rows_for_machines(cli: Cli) -> None:
    *seconds, total = cli.rows("bench", "Load", "--messages", "300", "--batch", "50", "--consume")
    assert total["total"]
    assert (total["messages"], total["bytes"], total["failed"], total["arrived"]) == (300, 300 * 1024, 0, 300)
    assert set(total["latency"]) == set(total["arrival"]) == {"mean", "p50", "p95", "p99", "p99.9", "max"}
    assert sum(each["messages"] for each in seconds) == 300


def test_what_it_refuses(cli: Cli, cluster: BlockingLocalCluster) -> None:
    for words, said in (
        (["Nowhere"], "the topic Nowhere does not exist"),
        (["no topic"], "no topic"),
        (["Load", "--size", "1"], "--size must be between 28 and "),
        (["Load", "--rate", "-1"], "--rate must be between"),
        (["Load", "--in-flight", "0"], "--in-flight must be between"),
    ):
        assert said in cli.fails("bench", *words)
    cluster.refuse_sends(1_000_000, code=ResponseCode.NO_PERMISSION)
    try:
        result = cli.run("bench", "Load", "--messages", "10000", "--in-flight", "4")
    finally:
        cluster.heal()
    assert result.exit_code == 1
    assert re.search(r"^total in [\d.]+ s: 0 messages, \d\d failed, ", result.stdout, re.MULTILINE)
    assert result.stderr.startswith("rocketpy: error: ")
