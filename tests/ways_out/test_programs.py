"""Programs end in every way: what was accepted is delivered, fails, or is counted in one line on standard error."""

from __future__ import annotations

import re

import pytest

from tests.ways_out.programs import BURST, COUNT, FIRST_OF_NEIGHBOUR, LINKS, NEIGHBOURS, STATUS
from tests.ways_out.quiet import check_quiet
from tests.ways_out.scene import CLOSE_TIMEOUT, EXIT_TIMEOUT, HEALS_AFTER, SLACK

LOST = re.compile(
    r"^rocketpy: (\d+) messages of producer (\S+) were lost: the process ended before a broker acknowledged them$"
)
WAITING = re.compile(r"rocketpy: waiting up to [\d.]+ s for (\d+) messages of producer ([\w-]+)")
WAYS = ("SIGTERM closes", "SIGTERM raises", "sys.exit", "end", "fork", "forgotten")
IN_ORDER, BROADCAST = "listening in order", "listening to a broadcast"
CONSUMING = ("listener running", IN_ORDER, BROADCAST, "polling", "pulling")
NOT_OPEN = ("starting", "closing", "closing in order")
STATES = ("starting", "idle", "sends in flight", *CONSUMING, "closing", "closing in order")
BLOCKING = [
    (state, way)
    for state in STATES
    for way in WAYS
    # A frame that waits keeps what it waits for, and forks where a program has its hands free.
    if state not in NOT_OPEN or way not in ("fork", "forgotten")
]
QUICK = {
    ("starting", "SIGTERM closes"),
    ("idle", "end"),
    (IN_ORDER, "SIGTERM closes"),
    ("sends in flight", "SIGTERM closes"),
    ("sends in flight", "end"),
    ("sends in flight", "fork"),
}
BOUND = 5.0 + SLACK
"""Seconds for a whole program, whatever hangs."""


def lines(ended, pattern, producer=None):
    """The numbers of messages that lines of this kind name."""
    found = [pattern.search(line) for line in ended.err]
    return [int(match[1]) for match in found if match and producer in (None, match[2])]


def run(case, state, way, healed):
    if state in CONSUMING or state == "closing in order":
        case.with_message()
    return case.run("tests.ways_out.programs:run", state=state, way=way, healed=healed, limit=BOUND)


def check_end(ended, way):
    assert ended.status == (STATUS if way in ("sys.exit", "SIGTERM raises") else 0), str(ended)
    assert ended.seconds < BOUND, str(ended)
    check_quiet(ended)
    if way == "SIGTERM closes":
        assert ended.said.get("closed"), str(ended)
    if way == "fork":
        check_child(ended)


def check_child(ended):
    """The child is told what to do, has nothing of its parent's, ends by itself, and can have a client of its own."""
    child = ended.said["child"]
    assert child["told"].startswith("ClientClosedError"), str(ended)
    assert "fork" in child["told"], str(ended)
    assert child["inherited"] == [], str(ended)
    assert child["sent"] == "SEND_OK", str(ended)
    assert ended.said["child_status"] == 0, str(ended)


@pytest.mark.parametrize(
    ("state", "way"), [pytest.param(*cell, marks=() if cell in QUICK else pytest.mark.matrix) for cell in BLOCKING]
)
def test_a_blocking_program_ends(case, state, way):
    """Where sends are under way their broker answers again in a moment: nothing is lost."""
    ended = run(case, state, way, healed=True)
    check_end(ended, way)
    stored = case.stored()
    assert set(ended.said.get("accepted", ())) <= set(stored), str(ended)
    assert lines(ended, LOST) == [], str(ended)
    assert ended.said.get("unanswered", 0) == 0, str(ended)
    if state in CONSUMING:
        assert case.committed() <= ended.said.get("finished", 0), str(ended)
    if state == BROADCAST:
        assert case.kept() <= ended.said.get("finished", 0), str(ended)
        assert case.kept() == 1 or way != "SIGTERM closes", str(ended)
    if state == IN_ORDER:
        assert not case.holds_locks(), str(ended)
    if way == "end" and state == "sends in flight":
        assert lines(ended, WAITING, case.group) == [COUNT], str(ended)
        assert ended.seconds >= HEALS_AFTER, str(ended)
    if way == "end" and state in ("idle", "sends in flight"):
        neighbours = {FIRST_OF_NEIGHBOUR + number for number in range(NEIGHBOURS)}
        assert neighbours <= set(stored), str(ended)
    if way == "forgotten":
        assert [line for line in ended.err if "ResourceWarning" in line and case.group in line], str(ended)


def test_what_callbacks_send_at_the_end_is_waited_for(case):
    ended = case.run("tests.ways_out.programs:in_callbacks", limit=BOUND)
    assert ended.status == 0, str(ended)
    check_quiet(ended)
    assert lines(ended, LOST) == [], str(ended)
    assert sorted(case.stored()) == list(range(LINKS + 1)), str(ended)


@pytest.mark.parametrize("linger", [None, 0.01])
def test_what_a_forgotten_producer_has_under_way_is_waited_for(case, linger):
    ended = case.run("tests.ways_out.programs:forgotten_at_once", linger=linger, limit=BOUND)
    assert ended.status == 0, str(ended)
    check_quiet(ended)
    assert lines(ended, LOST) == [], str(ended)
    assert sorted(case.stored()) == list(range(BURST)), str(ended)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.matrix)])
@pytest.mark.parametrize("healed", [True, False])
def test_a_process_of_multiprocessing_ends(case, healed, method):
    """Such a one calls nothing of `atexit`; what it waits for, and says once, is the same."""
    ended = case.run("tests.ways_out.programs:in_worker", healed=healed, method=method, limit=BOUND)
    assert (ended.status, ended.said["worker_status"]) == (0, 0), str(ended)
    check_quiet(ended)
    assert lines(ended, WAITING, case.group) == [COUNT], str(ended)
    assert lines(ended, LOST) == ([] if healed else [COUNT]), str(ended)
    expected = set(range(COUNT + 1)) if healed else {0}
    assert set(case.stored()) == expected | {FIRST_OF_NEIGHBOUR + number for number in range(NEIGHBOURS)}, str(ended)


@pytest.mark.parametrize("way", ["end", *(pytest.param(way, marks=pytest.mark.matrix) for way in WAYS if way != "end")])
def test_a_blocking_program_ends_while_its_broker_hangs(case, way):
    """Its futures fail, or one line says how many messages were lost; it waits no longer than it is to."""
    ended = run(case, "sends in flight", way, healed=False)
    check_end(ended, way)
    stored = case.stored()
    assert [number for number in stored if number < FIRST_OF_NEIGHBOUR] == [0], str(ended)
    if way == "end":
        assert lines(ended, WAITING, case.group) == [COUNT], str(ended)
        assert lines(ended, LOST) == lines(ended, LOST, case.group) == [COUNT], str(ended)
        assert ended.seconds < EXIT_TIMEOUT + CLOSE_TIMEOUT + SLACK, str(ended)
        assert {FIRST_OF_NEIGHBOUR + number for number in range(NEIGHBOURS)} <= set(stored), str(ended)
    elif way in ("SIGTERM raises", "sys.exit"):
        assert ended.said["unanswered"] == 0, str(ended)
        told = [line for line in ended.err if {str(COUNT), case.group} <= set(re.findall(r"[\w-]+", line))]
        assert len([line for line in told if not WAITING.search(line)]) == 1, str(ended)
    else:
        assert ended.said["unanswered"] == 0, str(ended)
        assert lines(ended, LOST) == [], str(ended)
