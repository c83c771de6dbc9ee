"""rocketpy cluster probe."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster(two_brokers: BlockingLocalCluster) -> BlockingLocalCluster:
    return two_brokers


def test_each_broker_is_measured(cli: Cli, cluster: BlockingLocalCluster) -> None:
    before = len(cluster.messages("broker-b"))
    rows = cli.rows("cluster", "probe", "--messages", "3", "--size", "16")
    assert [(row["cluster"], row["broker"], row["stored"], row["failed"]) for row in rows] == [
        ("DefaultCluster", "broker-a", 3, 0),
        ("DefaultCluster", "broker-b", 3, 0),
    ]
    assert all(0 < row["p50"] <= row["p99"] <= row["max"] for row in rows)
    sent = cluster.messages("broker-b")[before:]
    assert [each.body for each in sent] == [b"a" * 16] * 4
    titles = " ".join(cli.lines("cluster", "probe", "DefaultCluster", "--messages", "1")[0].split())
    assert titles == "cluster broker stored failed mean ms p50 ms p95 ms p99 ms max ms"


def test_it_is_repeated_as_by_mqadmin(cli: Cli) -> None:
    rows = cli.rows("cluster", "probe", "--messages", "1", "--watch", "--every", "0.1", "--times", "2")
    assert [row["broker"] for row in rows] == ["broker-a", "broker-b"] * 2


def test_a_broker_that_is_down_is_named(cluster: BlockingLocalCluster, tmp_path: Path) -> None:
    file = tmp_path / "rocketpy.toml"
    file.write_text(f'[address_map]\n"{cluster.broker_addresses[1]}" = "127.0.0.1:1"\n', "utf-8")
    result = Cli(cluster, ROCKETPY_CONFIG=str(file)).run("cluster", "probe", "--messages", "2")
    assert result.exit_code == 1
    assert [line.split()[1:4] for line in result.stdout.splitlines()[1:]] == [
        ["broker-a", "2", "0"],
        ["broker-b", "0", "1"],
    ]
    title, failure, done = result.stderr.splitlines()
    assert title == "rocketpy: error: sending to the brokers failed on 1 of 2 servers"
    assert failure.startswith("  broker-b: ")
    assert done == "  succeeded on broker-a"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["Other"], "there is no cluster 'Other'"),
        (["--messages", "0"], "--messages must be 1 to 1000000, not 0"),
        (["--size", "0"], "--size must be 1 to 4194304, not 0"),
        (["--every", "5"], "--every and --times need --watch"),
    ],
)
def test_bad_input_is_refused(cli: Cli, line: list[str], said: str) -> None:
    assert said in cli.fails("cluster", "probe", *line)
