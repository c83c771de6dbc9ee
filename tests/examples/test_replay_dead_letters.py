"""examples/replay_dead_letters.py as a user runs it: listed first, then sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy.sync import Message, MessageExt, PushConsumer, RetryLater
from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]


def run(cluster: BlockingLocalCluster, *options: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-m", "examples.replay_dead_letters", "bank", *options]
    done = subprocess.run(
        [*command, "-n", cluster.name_server_addresses], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_dead_letters_are_listed_and_then_sent() -> None:
    bank_is_open = False
    paid: list[bytes] = []

    def pay(message: MessageExt) -> RetryLater | None:
        if not bank_is_open:
            return RetryLater(-1)
        paid.append(message.body)
        return None

    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Payments")
        with PushConsumer("bank", namesrv=cluster.name_server_addresses) as consumer:
            consumer.subscribe("Payments", pay)
            for body in (b"coffee", b"tea"):
                cluster.send(Message("Payments", body))
            cluster.wait_dead_letters("bank", 2)
            bank_is_open = True
            *rows, total = run(cluster)
            assert len(rows) == 2
            assert all(row.startswith("Payments ") for row in rows)
            assert total == "2 to send, 0 skipped, 0 left"
            assert run(cluster, "--send", "--limit", "1")[-1] == "1 sent, 0 skipped, 1 left"
            assert run(cluster, "--send", "--topic", "Payments")[-1] == "1 sent, 0 skipped, 0 left"
            assert run(cluster, "--send", "--topic", "Other")[-1] == "0 sent, 0 skipped, 0 left"
            cluster.wait_consumed("bank", "Payments")
    assert sorted(paid) == [b"coffee", b"tea"]
