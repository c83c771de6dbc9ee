"""examples/watch_lag.py as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy.sync import Message, PushConsumer
from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]


def run(cluster: BlockingLocalCluster, *options: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-m", "examples.watch_lag", *options]
    done = subprocess.run(
        [*command, "-n", cluster.name_server_addresses], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_lag_of_a_group_and_of_all() -> None:
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Payments", queues=1)
        with PushConsumer("bank", namesrv=cluster.name_server_addresses) as consumer:
            consumer.subscribe("Payments", lambda message: None)
            cluster.send(Message("Payments", b"coffee"))
            cluster.wait_consumed("bank", "Payments")
        for body in (b"tea", b"water"):
            cluster.send(Message("Payments", body))
        for options in ((), ("bank",), ("--times", "1")):
            group, queue = run(cluster, *options, "--times", "1")
            assert group.startswith("bank: 2 behind, 0 in flight, ")
            assert queue.startswith("  Payments@broker-a:0: 1 of 3, stored until ")
        assert len(run(cluster, "bank", "--times", "2", "--every", "0.1")) == 4
