"""The examples of transactions, as a user starts them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parents[2]
SAID = {
    "transactions": ["sale 3: COMMIT", "sale 4: ROLLBACK", "4 messages, 4 sales"],
    "transactions_asyncio": [
        "a quick payment: COMMIT",
        "a slow payment: UNKNOWN",
        "the broker asks about a slow payment",
        "['a quick payment', 'a slow payment']",
    ],
    "transactions_trio": ["the producer is gone", "the broker asks about one coffee", "delivered: one coffee"],
}


@pytest.mark.slow
@pytest.mark.waits("starts a Python, which serves itself")
@pytest.mark.parametrize("name", SAID)
def test_what_it_says(name: str) -> None:
    command = [sys.executable, "-W", "error", "-m", f"examples.{name}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    said = [line for line in ran.stdout.splitlines() if line in SAID[name]]
    assert list(dict.fromkeys(said)) == SAID[name]  # on a slow machine, the broker may ask twice


@pytest.mark.slow
@pytest.mark.waits("starts a Python twice")
@pytest.mark.parametrize(("name", "topic"), [("transactions", "Sales"), ("batches", "Cakes")])
def test_a_server_without_a_topic_is_taken(name: str, topic: str) -> None:
    with BlockingLocalCluster() as cluster:
        command = [sys.executable, "-m", f"examples.{name}", cluster.name_server_addresses]
        subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
        assert len(cluster.messages(topic)) == {"Sales": 4, "Cakes": 1000}[topic]
