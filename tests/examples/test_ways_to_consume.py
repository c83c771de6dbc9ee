"""The examples that bring servers of their own, as a user starts them: what they print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import own_strategy
from rocketpy.sync import AllocateRequest, MessageQueue

FORKS = ("-W", "ignore:This process (pid:DeprecationWarning")
"""Python 3.12 warns of every fork of a process with threads, which is one here because its servers run in it too."""
ROOT = Path(__file__).resolve().parents[2]

BOTH_PRICES = "['coffee 3.20', 'tea 2.80']"
PRINTED = {
    "ask": ["coffee 3.20", "tea 2.80", "nobody knows the price of gold"],
    "assign": ["100 messages of Orders in the last hour"],
    "auto_batching": [
        "10000 messages from one thread, each with a place of its own",
        "2000 messages from 16 threads",
    ],
    "batches": ["1000 messages in 10 batches of up to 103"],
    "broadcast": [f"one: {BOTH_PRICES}", f"two: {BOTH_PRICES}"],
    "commit_by_hand": [
        "[1, 2, 3, 4, 5] are written",
        "the database is down: [6, 7, 8, 9, 10] come again",
        "[6, 7, 8, 9, 10] are written",
        "[11, 12, 13, 14, 15] are written",
        "[16, 17, 18, 19, 20] are written",
    ],
    "forked": [
        "order 5 fails; 2 of its batch are done",
        "7 orders, 1 copy left out",
        "the worker has ended with 0",
    ],
    "hooks": ["10 calls of the listener, the longest took under 1 s"],
    "later": [
        "recalled: True",
        "level 1 is a second: not early: True",
        "in two seconds: not early: True",
        "three seconds later: not early: True",
    ],
    "more_queues": ["Letters has 4 queues now"],
    "observed": [
        "producer web is open",
        "1000 messages sent, 0 failed",
        "brokers: broker-a took 1000",
        "half of them within a second: True - the slowest one in ten seconds: True",
        "producer web is closed",
    ],
    "own_offsets": ["the first consumer has ended; the next one continues where the ledger says", "sum: 5050"],
    "own_strategy": ["large: 6 queues, small: 2"],
    "plain_pull": ["0:0 coffee", "0:1 cake", "1:0 tea", "3 messages"],
    "queues_come_and_go": ["got 2 queues", "gave up 2 queues with 10 messages"],
    "slow_broker": [
        "broker-a takes longer than 0.5 s and is passed over",
        "twice as much is sent with the strategy: True",
        "all are well again",
    ],
    "values": ["26 bytes: {'sensor': 7, 'celsius': 21.5}", "8 bytes: Reading(sensor=7, celsius=21.5)"],
    "otel_spans": ["write the bill  <-  process Orders  <-  send Orders  <-  take the order"],
    "message_traces": [
        "shop -> Orders: SendResult",
        "got two cups",
        "refused: internal messages stay here, and do not go to Orders",
        "traced: Pub by shop, SubAfter by billing, SubBefore by billing",
    ],
    "workers": ["100 messages are handed out, 71 are committed"],
}


@pytest.mark.slow
@pytest.mark.waits("starts a Python, which serves itself")
@pytest.mark.parametrize("example", PRINTED)
def test_an_example_prints_what_it_is_about(example: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", *(FORKS if example == "forked" else ()), "-m", f"examples.{example}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == PRINTED[example]
    assert ran.stderr == ""


def test_the_strategy_gives_each_queue_to_one_member() -> None:
    queues = tuple(MessageQueue("T", "broker-a", number) for number in range(11))
    members = ("1@large", "2@small", "3@small")
    shares = [own_strategy.by_weight(AllocateRequest("g", "T", member, queues, members)) for member in members]
    assert sorted(queue for share in shares for queue in share) == sorted(queues)
    assert list(map(len, shares)) == [7, 2, 2]


def test_every_example_of_consuming_is_named_in_the_documentation() -> None:
    texts = "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    names = [path.name for path in (ROOT / "examples").glob("*.py") if path.stem not in ("__init__", "servers")]
    assert [name for name in sorted(names) if f"examples/{name}" not in texts] == []
    assert "driven.py" in names
