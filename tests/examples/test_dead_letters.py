"""examples/dead_letters.py as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy import RetryLater
from rocketpy.sync import Admin, Message, PushConsumer
from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]


def run(cluster: BlockingLocalCluster, *options: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-m", "examples.dead_letters", *options]
    done = subprocess.run(
        [*command, "-n", cluster.name_server_addresses], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_they_are_counted_and_replayed_in_portions() -> None:
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Payments", queues=1)
        with PushConsumer("bank", namesrv=cluster.name_server_addresses) as consumer:
            consumer.subscribe("Payments", lambda message: RetryLater(-1))
            for number in range(5):
                cluster.send(Message("Payments", b"%d" % number))
            cluster.wait_dead_letters("bank", 5)
        with Admin(namesrv=cluster.name_server_addresses) as admin:
            admin.groups.create("idle")
        assert run(cluster) == ["bank: 5 dead letters, {'Payments': 5}"]
        assert run(cluster, "bank", "--portion", "3") == [
            "3 sent again to Payments, 2 left",
            "2 sent again to Payments, 0 left",
        ]
        assert run(cluster) == []
        assert len(cluster.messages("Payments")) == 10
