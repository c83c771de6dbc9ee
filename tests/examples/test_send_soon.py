"""examples/send_soon.py as a user runs it: to its end, and ended by a signal in the middle."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingLocalCluster]:
    with BlockingLocalCluster() as running:
        yield running


def start(cluster: BlockingLocalCluster, topic: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "examples.send_soon", topic, "-n", cluster.name_server_addresses],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_every_line_is_stored(cluster: BlockingLocalCluster) -> None:
    with start(cluster, "Numbers") as program:
        out, err = program.communicate("".join(f"{number}\n" for number in range(3000)), timeout=60)
    assert (program.returncode, out, err) == (0, "3000 stored, 0 failed\n", "")
    assert sorted(int(message.body) for message in cluster.messages("Numbers")) == list(range(3000))


@pytest.mark.slow
def test_failures_are_counted(cluster: BlockingLocalCluster) -> None:
    cluster.create_topic("Refused")
    cluster.refuse_sends(5, code=13)
    with start(cluster, "Refused") as program:
        out, err = program.communicate("a\nb\n\nc\nd\ne\nf\n", timeout=60)
    assert (program.returncode, out) == (1, "1 stored, 5 failed\n")
    assert re.fullmatch(r"the first failure: .*code 13.*\n", err)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_loses_nothing_that_was_accepted(cluster: BlockingLocalCluster, number: signal.Signals) -> None:
    topic = f"Until{number.name}"
    cluster.create_topic(topic)
    with start(cluster, topic) as program:
        assert program.stdin is not None
        program.stdin.write("".join(f"{each}\n" for each in range(500)))
        program.stdin.flush()
        cluster.wait_messages(topic, 1, timeout=30)
        program.send_signal(number)
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (128 + number, "")
    stored = re.fullmatch(r"(\d+) stored, 0 failed\n", out)
    assert stored, out
    assert int(stored[1]) == len(cluster.messages(topic)) >= 1
