"""What a kill loop says of transactions is judged by what their producers wanted."""

from __future__ import annotations

from itertools import count

import pytest

from tests.kill.content import State, verdict_of
from tests.kill.transactions import broken


def named(final: State) -> str:
    """An id whose transaction ends so."""
    return next(name for name in map("p-0.0-{}".format, count()) if verdict_of(name)[1] is final)


GOOD, BAD = named(State.COMMIT), named(State.ROLLBACK)


@pytest.mark.parametrize(
    ("known", "delivered"),
    [
        ({GOOD: "taken"}, {GOOD: 1}),
        ({GOOD: "taken"}, {GOOD: 2}),
        ({GOOD: "unknown"}, {}),
        ({GOOD: "unknown"}, {GOOD: 1}),
        ({GOOD: "half"}, {GOOD: 1}),
        ({GOOD: "unsent"}, {}),
        ({BAD: "taken"}, {}),
    ],
)
def test_TX1_what_was_promised_is_no_violation(known: dict[str, str], delivered: dict[str, int]) -> None:
    assert list(broken(known, delivered, {})) == []


@pytest.mark.parametrize(
    ("known", "delivered", "aside", "said"),
    [
        ({GOOD: "taken"}, {}, {}, "is not there"),
        ({BAD: "taken"}, {BAD: 1}, {}, "was rolled back, and is there"),
        ({BAD: "half"}, {BAD: 1}, {}, "was rolled back, and is there"),
        ({GOOD: "unsent"}, {GOOD: 1}, {}, "never left its producer"),
        ({}, {GOOD: 1}, {}, "was never sent"),
        ({GOOD: "taken"}, {GOOD: 1}, {GOOD: 1}, "was set aside"),
    ],
)
def test_TX1_TX2_a_promise_that_was_not_kept_is_told(
    known: dict[str, str], delivered: dict[str, int], aside: dict[str, int], said: str
) -> None:
    (violation,) = broken(known, delivered, aside)
    assert violation.invariant == "I17"
    assert said in violation.text


def test_ids_lead_to_every_way_to_end() -> None:
    said = {verdict_of(f"p-0.0-{number}") for number in range(200)}
    assert said == {
        (State.COMMIT, State.COMMIT),
        (State.ROLLBACK, State.ROLLBACK),
        (State.UNKNOWN, State.COMMIT),
        (State.UNKNOWN, State.ROLLBACK),
    }
