"""examples/filters.py as a user runs it: what it prints, and what it says to a wrong expression."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy.message import Message
from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]


def start(cluster: BlockingLocalCluster, *which: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-m", "examples.filters", "Orders", *which]
    return subprocess.Popen(
        [*command, "-n", cluster.name_server_addresses],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_what_the_expression_lets_through_is_printed() -> None:
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Orders", queues=1)
        for amount in (5, 5000, 7):
            cluster.send(Message("Orders", f"{amount} euros".encode(), tags="paid", properties={"amount": str(amount)}))
        with start(cluster, "amount > 6") as program:
            assert program.stdout is not None
            lines = [program.stdout.readline(), program.stdout.readline()]
            program.send_signal(signal.SIGTERM)
            rest, _ = program.communicate(timeout=60)
        assert (sorted(lines), rest) == (["Orders paid 5000 euros\n", "Orders paid 7 euros\n"], "")
        assert program.returncode == 0


@pytest.mark.slow
def test_what_has_one_of_the_tags_is_printed() -> None:
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Orders", queues=1)
        for tag in ("paid", "new", "refunded"):
            cluster.send(Message("Orders", b"an order", tags=tag))
        with start(cluster, "--tags", "paid || refunded") as program:
            assert program.stdout is not None
            lines = [program.stdout.readline(), program.stdout.readline()]
            program.send_signal(signal.SIGTERM)
            rest, _ = program.communicate(timeout=60)
        assert (sorted(lines), rest) == (["Orders paid an order\n", "Orders refunded an order\n"], "")
        assert program.returncode == 0


@pytest.mark.slow
def test_a_wrong_expression_is_shown_with_its_place() -> None:
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Orders", queues=1)
        with start(cluster, "amount > AND") as program:
            out, err = program.communicate(timeout=60)
    assert (program.returncode, out) == (2, "")
    assert err.splitlines()[-2:] == ["    amount > AND", "             ^"]
    assert "correct the expression" in err
