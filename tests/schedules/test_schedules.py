"""Seeded schedules break no promise: three of them in `./dev test`, a hundred in `./dev test --all`."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from rocketpy import LitePullConsumer, MessageQueue, PushConsumer
from rocketpy.consumer.calling.consume_orderly import ConsumeMessageOrderlyService
from rocketpy.consumer.lite.driven_lite_pull import DrivenLitePull
from rocketpy.consumer.pulling import pull
from rocketpy.consumer.requests.driven_push import DrivenPush
from rocketpy.consumer.subscription import Subscription
from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
from tests.checker import Kind, Outcome
from tests.schedules import members, polling
from tests.schedules.history import History
from tests.schedules.judge import judge
from tests.schedules.plan import Event, Filter, GroupPlan, Plan, plan
from tests.schedules.quick import LEAST, QUICK, cover, had
from tests.schedules.run import run
from tests.schedules.world import KeptFile

ROOT = Path(__file__).parents[2]
ALL = 100
SEEDS = sorted({*range(1, ALL + 1), *QUICK})
FEW = QUICK[:3]
"""Those of `./dev test`."""


def marks(seed: int) -> tuple[pytest.MarkDecorator, ...]:
    """In which runs a schedule is."""
    return () if seed in FEW else (pytest.mark.slow,) if seed in QUICK else (pytest.mark.matrix,)


@cache
def outcome(seed: int) -> tuple[list[str], Counter[str]]:
    """The violations in a schedule, and what happened in it."""
    history = run(plan(seed))
    return [str(violation) for violation in judge(history)], had(history)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=marks(seed)) for seed in SEEDS])
def test_a_schedule_breaks_no_promise(seed: int) -> None:
    violations, _ = outcome(seed)
    assert violations == [], f"python -m tests.schedules --count 1 --seed {seed}"


def rare(seeds: Iterable[int], least: dict[str, int]) -> dict[str, int]:
    """What happened in too few schedules."""
    found = Counter(name for seed in seeds for name, times in outcome(seed)[1].items() if times)
    return {name: found[name] for name, wanted in least.items() if found[name] < wanted}


@pytest.mark.slow
def test_the_quick_schedules_have_everything() -> None:
    assert rare(QUICK, dict.fromkeys(LEAST, 1)) == {}, "choose others: python -m tests.schedules --cover 13"


def test_quick_schedules_are_chosen_so_that_each_event_is_in_several() -> None:
    found = {1: {"join"}, 2: {"join", "leave"}, 3: {"leave", "kill"}, 4: {"join", "leave"}, 5: {"kill", "irrelevant"}}
    work = dict.fromkeys(found, 100)
    assert cover(found, work, 2) == [2, 3]
    assert cover(found, work, 4) == [2, 3, 4, 5]
    assert cover(found, work, 9) == [1, 2, 3, 4, 5]
    assert cover(found, work | {3: 300}, 2) == [2, 5]  # the third costs too much


@pytest.mark.matrix
def test_all_schedules_have_enough_of_everything() -> None:
    assert rare(range(1, ALL + 1), LEAST) == {}


# --- planted bugs -----------------------------------------------------------------------------------------


def small(kind: Kind, *events: Event, tells_clients: bool = False, **changes: Any) -> Plan:
    """A plan with two members of one group, and events."""
    group = GroupPlan("g", kind, members=2, work=0.05, trouble=0.0, batch=1, **changes)
    return Plan(1, 1, 2, 1, 0.6, 0.0, (group,), events, tells_clients=tells_clients)


def broken(plan: Plan) -> set[str]:
    return {violation.invariant for violation in judge(run(plan))}


def skipping(method: Callable[[KeptFile, MessageQueue], Awaitable[int | None]]) -> Any:
    """`KeptFile.read` that leaves some messages out."""

    async def read(self: KeptFile, queue: MessageQueue) -> int | None:
        known = await method(self, queue)
        return None if known is None else known + 15

    return read


def only_once(method: Callable[..., None]) -> Any:
    """`LitePullConsumer.assign` that ignores all calls after the first."""

    def assign(self: LitePullConsumer, queues: list[MessageQueue], **filters: Any) -> None:
        if not self._selection.assigned:
            method(self, queues, **filters)

    return assign


async def nothing(*arguments: object) -> None:
    """Replaces a method, and does nothing."""


RESTARTS = Event(30.0, "restart", "g", lasts=15.0)
BACK = Event(30.0, "back", "g", lasts=15.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("home", "method", "bug", "schedule", "invariant"),
    [
        (Subscription, "wants", lambda *_: True, small(Kind.POLLED, filter=Filter(tags="Aa || c")), "I10"),
        (Subscription, "wants", lambda *_: False, small(Kind.ORDERLY, filter=Filter(tags="Aa || c")), "I2"),
        (DrivenPush, "carry_out_resets", nothing, small(Kind.CONCURRENT, BACK, tells_clients=True), "I2"),
        (DrivenLitePull, "carry_out_resets", nothing, small(Kind.POLLED, BACK, tells_clients=True), "I2"),
        (ConsumerOffsetTable, "tell_reset", lambda *_, **__: None, small(Kind.ORDERLY, BACK), "I2"),
        (KeptFile, "read", nothing, small(Kind.BROADCAST, RESTARTS), "I11"),
        (KeptFile, "read", skipping(KeptFile.read), small(Kind.BROADCAST, RESTARTS), "I15"),
        (
            ConsumeMessageOrderlyService,
            "_keep",
            ConsumeMessageOrderlyService._note_succeeded,
            small(Kind.ORDERLY, commits="hand"),
            "I13",
        ),
        (LitePullConsumer, "assign", only_once(LitePullConsumer.assign), small(Kind.POLLED, assigns=True), "I18"),
    ],
)
def test_what_is_planted_is_found(
    home: type, method: str, bug: object, schedule: Plan, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broken(schedule) == set()
    monkeypatch.setattr(home, method, bug)
    assert invariant in broken(schedule)


def refuse(history: History) -> None:
    """A producer says of a stored message that its send failed."""
    history.sends[3] = attrs.evolve(history.sends[3], outcome=Outcome.FAIL)


def exchange(history: History) -> None:
    """Two messages of one producer stand in their queue in the wrong order."""
    one, other = [number for number, send in enumerate(history.sends) if send.line == history.sends[0].line][:2]
    first, second = history.sends[one], history.sends[other]
    history.sends[one] = attrs.evolve(first, place=second.place)
    history.sends[other] = attrs.evolve(second, place=first.place)


def overlap(history: History) -> None:
    """A listener runs until the next message of its queue has come."""
    deliveries = history.groups["g"].deliveries
    one, other = [each for each in deliveries if each.queue == deliveries[0].queue][:2]
    one.ended = other.began + 0.01


def bury(history: History) -> None:
    """A message that nobody failed on becomes a dead letter."""
    history.groups["g"].dead_letters.append(history.sends[0].id)


def leave(history: History) -> None:
    """A task is left over."""
    history.left_over.append("a task")


def test_what_is_forged_in_the_history_of_a_schedule_is_found() -> None:
    """What a run records is all that these promises are judged by. One run for all."""
    history = run(small(Kind.ORDERLY))
    assert judge(history) == []
    for forge, invariant in ((refuse, "I3"), (exchange, "I8"), (overlap, "I12"), (bury, "I14"), (leave, "I20")):
        forged = copy.deepcopy(history)
        forge(forged)
        assert invariant in {violation.invariant for violation in judge(forged)}, invariant


@pytest.mark.slow
def test_consumers_that_seldom_commit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a minute between two commits, and pulls that commit nothing on the way."""
    seldom = {"persist_consumer_offset_interval": 60.0}
    monkeypatch.setattr(pull, "COMMITS", 0)
    monkeypatch.setattr(members, "PushConsumer", partial(PushConsumer, **seldom))
    monkeypatch.setattr(polling, "LitePullConsumer", partial(LitePullConsumer, auto_commit_interval=60.0, **seldom))
    for kind in (Kind.CONCURRENT, Kind.POLLED):
        found = judge(run(small(kind, Event(50.0, "kill", "g"))))
        assert {violation.invariant for violation in found} == {"I11"}
        assert any("had committed" in violation.text for violation in found)
        assert any(" got " in violation.text for violation in found), (
            "a message that was finished long ago was redelivered"
        )


@pytest.mark.slow
def test_a_schedule_takes_the_same_course_each_time() -> None:
    """In processes of their own: clients in other loops of this one share its source of randomness."""
    assert course() == course()


def course() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.schedules", "--count", "1", "--seed", "3"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=True,
    )
    return done.stdout
