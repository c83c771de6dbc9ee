"""Ten seconds of chaos; and the verdict finds what was planted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.book import Book
from tests.chaos.plan import BROKERS, plan
from tests.chaos.verdict import Stored, judge
from tests.chaos.ways import GROUPS, Way, ways
from tests.checker import Delivery

ROOT = Path(__file__).resolve().parents[2]
SECONDS, SEED = 10, 1
LEAST_ACKNOWLEDGED = 1_000


@pytest.mark.matrix
def test_nothing_acknowledged_is_lost_in_chaos():
    command = [sys.executable, "-m", "tests.chaos", "--seconds", str(SECONDS), "--seed", str(SEED)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 240, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("acknowledged")]
    assert int(line.split()[1]) >= LEAST_ACKNOWLEDGED, ran.stdout


def test_a_plan_is_the_seed_and_lets_no_two_faults_of_a_broker_overlap():
    assert plan(120, 1) == plan(120, 1) != plan(120, 2)
    faults = plan(120, 1)
    assert {fault.what for fault in faults} == {"cut", "hold", "refuse", "kill", "stop"}
    for broker in range(BROKERS):
        mine = [fault for fault in faults if fault.broker == broker]
        ends = [fault.at + fault.lasts for fault in mine]
        assert len(mine) > 20
        assert all(end < after.at for end, after in zip(ends, mine[1:], strict=False))


@pytest.fixture
def book():
    """Two messages of one key and a plain one; all are acknowledged and delivered."""
    made = Book()
    made.acknowledge(made.begin(["k/0", "k/1"], "trio", "k"))
    made.acknowledge(made.begin(["p/0"], "blocking"))
    for offset, body in enumerate(("k/0", "k/1", "p/0")):
        deliver(made, offset, offset + 0.1, offset + 0.2, body)
    return made


A, B = ("T", "broker-a", 0), ("T", "broker-b", 1)
GOOD = (Stored("k/0", A, 0), Stored("k/1", A, 1), Stored("p/0", B, 0))


def found(book, stored=GOOD, left=None, way=Way.CONCURRENT):
    verdict = judge(book, stored, {"group": way}, left or {})
    return {kind: texts for kind, texts in verdict.violations.items() if texts}


def test_a_good_run_has_no_violation(book):
    assert found(book) == {}


@pytest.mark.parametrize(
    ("stored", "kind", "invariant"),
    [
        (GOOD[:2], "wrongly stored", "I1"),
        ((*GOOD, Stored("x/0", B, 1)), "wrongly stored", "I5"),
        ((*GOOD, Stored("k/1", B, 1)), "wrongly stored", "I5"),
        ((*GOOD, Stored("p/0", B, 2)), "wrongly stored", "I7"),
        ((Stored("k/1", A, 0), Stored("k/0", A, 1), GOOD[2]), "out of order", "I8"),
    ],
)
def test_what_is_wrong_in_the_store_is_found(book, stored, kind, invariant):
    [(told, [text])] = found(book, stored).items()
    assert (told, text.partition(":")[0]) == (kind, invariant)


def test_keys_that_move_to_another_queue_are_in_order(book):
    assert found(book, (Stored("k/1", A, 0), Stored("k/0", B, 1), GOOD[2])) == {}


def test_what_is_plain_may_be_there_twice(book):
    assert found(book, (*GOOD, Stored("p/0", A, 2))) == {}


def test_what_was_not_answered_not_delivered_or_late_is_found(book):
    book.begin(["p/1"], "blocking")
    book.acknowledge(book.begin(["p/2"], "blocking"))
    with book.timed("send", -1.0):
        pass
    violations = found(book, (*GOOD, Stored("p/2", B, 1)), {"thread left": ["reader"]})
    assert violations["unanswered"] == ["p/1"]
    assert [text.split(" of ")[0] for text in violations["wrongly delivered to group"]] == ["I2: group never got p/2"]
    assert len(violations["late"]) == 1
    assert violations["thread left"] == ["reader"]


def test_every_way_meets_every_surface():
    assert [ways(1)[group] for group in GROUPS.values()] == [Way.ORDERLY, Way.POLLED, Way.BROADCAST]
    for group in GROUPS.values():
        assert {ways(seed)[group] for seed in range(len(Way))} == set(Way)


@pytest.mark.parametrize("way", Way)
def test_what_a_group_never_gets_is_found_whatever_its_way(book, way):
    book.acknowledge(book.begin(["p/1"], "blocking"))
    [text] = found(book, (*GOOD, Stored("p/1", B, 1)), way=way)["wrongly delivered to group"]
    assert text.startswith("I15: group" if way is Way.BROADCAST else "I2: group")


def deliver(book, offset, began, ended, body=""):
    done = Delivery(
        consumer="group", id=body, queue=("T", "broker-a", 0), offset=offset, began=began, ended=ended, succeeded=True
    )
    book.consumed["group"].deliveries.append(done)


@pytest.mark.parametrize(("way", "wrong"), [(Way.CONCURRENT, 0), (Way.ORDERLY, 1), (Way.POLLED, 0), (Way.BROADCAST, 0)])
def test_a_group_in_order_that_gets_two_at_a_time_is_found(book, way, wrong):
    deliver(book, 3, 4.0, 6.0)
    deliver(book, 4, 6.5, 7.0)
    assert found(book, way=way) == {}
    deliver(book, 5, 6.9, 8.0)
    assert list(found(book, way=way)) == ["wrongly delivered to group"] * wrong


@pytest.mark.parametrize(("way", "wrong"), [(Way.CONCURRENT, 0), (Way.ORDERLY, 0), (Way.POLLED, 0), (Way.BROADCAST, 1)])
def test_a_broadcast_that_gets_a_message_again_is_found(book, way, wrong):
    book.restarts.append((2.0, "broker-a"))
    deliver(book, 2, 3.0, 3.5)
    assert list(found(book, way=way)) == ["wrongly delivered to group"] * wrong
