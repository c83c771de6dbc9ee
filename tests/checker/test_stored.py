"""The checker distinguishes good histories from bad ones, all written by hand with the verdict they must get."""

from __future__ import annotations

import attrs
import pytest

from tests.checker import (
    History,
    Observation,
    Outcome,
    Seen,
    Send,
    check,
    check_same_files,
)


def send(number: int, outcome: Outcome = Outcome.OK, **fields) -> Send:
    """A send to queue 0 of one topic, acknowledged at the offset that is its number."""
    values = {"place": (0, number) if outcome is Outcome.OK else None, "position": number * 100}
    return Send(id=f"m{number}", topic="T", body=b"b%d" % number, outcome=outcome, **{**values, **fields})


def seen(number: int, **fields) -> Seen:
    values = {"queue_id": 0, "offset": number, "body": b"b%d" % number, "position": number * 100}
    return Seen(id=f"m{number}", topic="T", **{**values, **fields})


def whole(*numbers: int | Seen, name: str = "reader", **fields) -> Observation:
    messages = [seen(each) if isinstance(each, int) else each for each in numbers]
    ends = {each.line: (0, each.offset + 1) for each in messages}
    return Observation(name=name, **{"seen": messages, "bounds": ends, **fields})


def consumer(*numbers: int | Seen, name: str = "consumer") -> Observation:
    return attrs.evolve(whole(*numbers, name=name), complete=False, bounds={})


THREE = [send(0), send(1), send(2)]
UNKNOWN = send(2, Outcome.INFO)
FAILED = send(2, Outcome.FAIL)

GOOD = {
    "nothing happened": History(),
    "an empty store": History(observations=[whole()]),
    "all is there": History(THREE, [whole(0, 1, 2, sends_before=3)]),
    "twice": History(THREE, [whole(0, 1, 2, sends_before=3), whole(0, 1, 2, sends_before=3)]),
    "an unknown send is there": History([*THREE[:2], UNKNOWN], [whole(0, 1, 2)]),
    "an unknown send is not there": History([*THREE[:2], UNKNOWN], [whole(0, 1)]),
    "a failed send is not there": History([*THREE[:2], FAILED], [whole(0, 1)]),
    "a lost unknown send leaves its place to another": History(
        [*THREE[:2], UNKNOWN, send(3, place=(0, 2), position=200)],
        [whole(0, 1, sends_before=3), whole(0, 1, seen(3, offset=2, position=200), sends_before=4)],
    ),
    "a consumer is given a message again": History(THREE, [consumer(0, 1, 1, 2, 1), whole(0, 1, 2)]),
    "a deleted topic is gone": History([send(0, optional=True), send(1, optional=True)], [whole(0, 1), whole()]),
    "old files are cleaned": History(
        [send(0, optional=True), send(1), send(2)], [whole(1, 2, bounds={("T", "", 0): (1, 3)})]
    ),
    "a group stands at the end": History(THREE, [whole(0, 1, 2, committed={("g", ("T", "", 0)): 3})]),
    "a group stands on an empty queue": History([], [whole(committed={("g", ("T", "", 0)): 0})]),
    "what was not flushed may be lost after it was seen": History(
        [send(0), UNKNOWN], [consumer(0, 2), whole(0)], durable=False
    ),
    "a producer may send again": History([send(0)], [whole(0, seen(0, offset=1))], once=False),
    "offsets of a producer rise": History([attrs.evolve(each, producer="p") for each in THREE], [whole(0, 1, 2)]),
}

BAD = {
    "an acknowledged message is lost": ("I1", History(THREE, [whole(0, 1)])),
    "it is lost later": ("I1", History(THREE, [whole(0, 1, 2), whole(0, 1)])),
    "a failed send is there": ("I3", History([*THREE[:2], FAILED], [whole(0, 1, 2)])),
    "a failed send is delivered": ("I3", History([*THREE[:2], FAILED], [consumer(0, 1, 2)])),
    "a place changes its message": (
        "I4",
        History(
            [send(0), UNKNOWN, send(3, Outcome.INFO)], [consumer(0, seen(2, offset=1)), consumer(0, seen(3, offset=1))]
        ),
    ),
    "a place is acknowledged twice": ("I4", History([send(0), send(1, place=(0, 0))], [])),
    "an acknowledged place holds another": (
        "I4",
        History([send(0), send(1), UNKNOWN], [consumer(0, seen(2, offset=1, position=100))]),
    ),
    "a phantom": ("I5", History(THREE, [whole(0, 1, 2, seen(3))])),
    "another body": ("I5", History(THREE, [whole(0, 1, seen(2, body=b"b3"))])),
    "another tag": ("I5", History(THREE, [whole(0, 1, seen(2, tags="A"))])),
    "other properties": ("I5", History(THREE, [whole(0, 1, seen(2, properties={"a": ""}))])),
    "another topic": ("I5", History([send(0, place=None)], [consumer(attrs.evolve(seen(0), topic="U"))])),
    "stored twice": ("I5", History([send(0), UNKNOWN], [whole(0, seen(2, offset=1), seen(2, offset=2))])),
    "back to life": (
        "I5",
        History([send(0), UNKNOWN], [whole(0, sends_before=2), whole(0, seen(2, offset=1), sends_before=2)]),
    ),
    "another offset than acknowledged": ("I6", History([send(0, place=(0, 1))], [whole(0)])),
    "another queue than acknowledged": ("I6", History([send(0, place=(1, 0))], [whole(0)])),
    "another position than acknowledged": ("I6", History([send(0, position=7)], [whole(0)])),
    "a hole in a queue": ("I7", History([send(0), send(2)], [whole(0, 2)])),
    "a queue longer than what it gives": ("I7", History([send(0)], [whole(0, bounds={("T", "", 0): (0, 2)})])),
    "an offset twice": ("I7", History([send(0)], [whole(0, 0)])),
    "files that do not agree": ("I7", History([], [whole(problems=["queue T 0 has a unit without a record"])])),
    "offsets that do not rise": (
        "I8",
        History([send(1, producer="p"), send(0, producer="p")], [whole(seen(0), seen(1))]),
    ),
    "seen, then gone": ("I9", History([send(0), UNKNOWN], [consumer(0, 2), whole(0)])),
    "a group behind the end": ("I13", History(THREE, [whole(0, 1, 2, committed={("g", ("T", "", 0)): 4})])),
    "a group on a queue that is gone": ("I13", History([], [whole(committed={("g", ("T", "", 3)): 1})])),
    "a group before the beginning": ("I13", History([], [whole(committed={("g", ("T", "", 0)): -1})])),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_histories_pass(name: str) -> None:
    assert check(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_bad_histories_are_told_by_the_promise_they_break(name: str) -> None:
    invariant, history = BAD[name]
    found = check(history)
    assert invariant in {each.invariant for each in found}, found
    assert all(str(each).startswith(each.invariant) and len(each.text) > 10 for each in found)


def test_a_history_needs_distinct_ids() -> None:
    with pytest.raises(ValueError, match="the same id"):
        check(History([send(0), send(0)]))


def test_a_second_recovery_must_change_nothing() -> None:
    files = {"commitlog/0": b"abc", "checkpoint": b"x"}
    assert check_same_files(files, dict(files)) == []
    assert [each.invariant for each in check_same_files(files, {"commitlog/0": b"abd"})] == ["I21", "I21"]
    assert check_same_files({}, {"new": b""})[0].text.startswith("new differs")
