"""What is planted into clients and brokers is found, each by the promise that it breaks.

The schedules run in loops with a `MockClock`.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

from rocketpy.client import transactions as ends
from rocketpy.client.requests import Requests
from rocketpy.consumer.rebalancing import rebalance
from rocketpy.consumer.rebalancing.allocate import allocate
from rocketpy.errors import RequestTimeoutError
from rocketpy.message import MessageQueue
from rocketpy.producer import checks as client_checks
from rocketpy.producer import transactions as client_transactions
from rocketpy.producer.local_half import Outcome as Judged
from rocketpy.producer.outside import Outside
from rocketpy.results import LocalTransactionState
from rocketpy_broker_sim import LocalCluster
from rocketpy_broker_sim.broker.processors import end_transaction
from rocketpy_broker_sim.broker.tables.producers import ProducerTable
from rocketpy_broker_sim.broker.timer.clock import TimerClock
from rocketpy_broker_sim.broker.timer.enqueue import Enqueue
from rocketpy_broker_sim.broker.transactions import checking
from rocketpy_broker_sim.broker.transactions.asking import Asking
from rocketpy_broker_sim.broker.transactions.checking import CheckService
from rocketpy_broker_sim.broker.transactions.half import check_times
from rocketpy_broker_sim.store.clock import StoredClock
from tests.checker import Outcome
from tests.schedules.producers.history import History
from tests.schedules.producers.judge import judge
from tests.schedules.producers.plan import Event, Plan, Team
from tests.schedules.producers.run import run

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK


def small(kind: str, *events: Event, is_patient: bool = False) -> Plan:
    """A plan with two members of one team, and events."""
    linger = 0.2 if kind == "lingering" else None
    return Plan(1, 1, 2, (Team(kind, kind, 2, 0.8, linger),), events, is_patient)


def broken(plan: Plan) -> set[str]:
    return {violation.invariant for violation in judge(run(plan), plan)}


def losing(start: Callable[[LocalCluster, int], Awaitable[Any]]) -> Any:
    """`LocalCluster.start_broker` that finds the last record gone."""

    async def start_broker(self: LocalCluster, number: int) -> Any:
        path = "commitlog/00000000000000000000"
        with_end = self.storages[number].open(path)
        kept = with_end.pread(with_end.size(), 0).rstrip(b"\0")
        with_end.clear(len(kept) - 100)
        with_end.close()
        return await start(self, number)

    return start_broker


def spoiling(method: Callable[..., Any]) -> Any:
    """What makes a committed message of a half message, and changes a byte of it."""

    def committed(*arguments: Any) -> Any:
        message = method(*arguments)
        message.body += b"!"
        return message

    return committed


def sooner(method: Callable[..., Any], more: float) -> Any:
    """A clock that is fast, or slow."""

    def shifted(*arguments: Any) -> Any:
        told = method(*arguments)
        return None if told is None else told + more

    return shifted


def twice(self: Outside, done: Callable[[Any], None], outcome: Any) -> None:
    """`Outside._ended_here` that calls back twice."""
    self.sends.end()
    done(outcome)
    done(outcome)


def again(method: Callable[..., Awaitable[Any]]) -> Any:
    """Carries something out a second time, after a while."""

    async def both(*arguments: Any) -> None:
        await method(*arguments)
        await trio.sleep(5)
        await method(*arguments)

    return both


def all_but_one(*arguments: Any, **settings: Any) -> list[MessageQueue]:
    """A share of the queues that lacks one."""
    return allocate(*arguments, **settings)[1:]


def leaking(method: Callable[..., Any]) -> Any:
    """`Requests.open` that adds a request which nobody closes."""

    def open_two(self: Requests, correlation_id: str, owner: object) -> Any:
        method(self, f"{correlation_id} again", owner)
        return method(self, correlation_id, owner)

    return open_two


def nothing(*_arguments: object, **_settings: object) -> None:
    """Replaces a method, and does nothing."""


def at_most_three(properties: dict[str, str]) -> int:
    """The number of checks of a half message, as a broker sees it that never counts further."""
    return min(check_times(properties), 3)


def always(*_arguments: object, **_settings: object) -> bool:
    return True


KILLS = Event(20.0, "kill broker", "plain", lasts=3.0)
LOSES = Event(15.0, "lose answers", "plain")
ORDERS, WAITS = small("transacting"), small("waiting")
PATIENT = small("transacting", is_patient=True)
ALL_COMMIT = {**ends._FLAGS, ROLLBACK: ends._FLAGS[COMMIT]}
NONE_COMMITS = {**ends._FLAGS, COMMIT: ends._FLAGS[ROLLBACK]}


def raised_commits(_what: str, error: BaseException) -> Judged:
    return Judged(COMMIT, error, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("home", "name", "bug", "schedule", "invariant"),
    [
        pytest.param(
            LocalCluster, "start_broker", losing(LocalCluster.start_broker), small("plain", KILLS), "I1", id="I1 lost"
        ),
        pytest.param(rebalance, "allocate", all_but_one, small("lingering"), "I2", id="I2 unseen"),
        pytest.param(RequestTimeoutError, "nothing_sent", True, small("plain", *[LOSES] * 3), "I3", id="I3 failed"),
        pytest.param(end_transaction, "committed", spoiling(end_transaction.committed), ORDERS, "I5", id="I5 spoiled"),
        pytest.param(StoredClock, "waited_ms", sooner(StoredClock.waited_ms, 100), WAITS, "I16", id="I16 early level"),
        pytest.param(TimerClock, "due", sooner(TimerClock.due, -100), WAITS, "I16", id="I16 early timer"),
        pytest.param(TimerClock, "due", sooner(TimerClock.due, 1500), WAITS, "I16", id="I16 late timer"),
        pytest.param(Enqueue, "_recall", always, WAITS, "I16", id="I16 recalled"),
        pytest.param(client_transactions, "raised", raised_commits, ORDERS, "I17", id="I17 an executor that raises"),
        pytest.param(client_checks, "raised", raised_commits, ORDERS, "I17", id="I17 a checker that raises"),
        pytest.param(ends, "_FLAGS", ALL_COMMIT, ORDERS, "I17", id="I17 rolled back"),
        pytest.param(ends, "_FLAGS", NONE_COMMITS, ORDERS, "I17", id="I17 committed"),
        pytest.param(Asking, "ask", nothing, ORDERS, "I17", id="I17 not asked"),
        pytest.param(CheckService, "check", again(CheckService.check), ORDERS, "I17", id="I17 asked too often"),
        pytest.param(checking, "check_times", at_most_three, PATIENT, "I17", id="I17 never given up"),
        pytest.param(ProducerTable, "unregister", nothing, ORDERS, "I20", id="I20 a member"),
        pytest.param(Requests, "open", leaking(Requests.open), small("asking"), "I20", id="I20 a request"),
        pytest.param(Outside, "_ended_here", twice, small("plain"), "I22", id="I22 twice"),
    ],
)
def test_what_is_planted_is_found(
    home: Any, name: str, bug: object, schedule: Plan, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, name, bug)
    assert invariant in broken(schedule)


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule",
    [small("plain", KILLS), small("plain", *[LOSES] * 3), small("lingering"), small("asking"), WAITS, PATIENT],
)
def test_nothing_is_found_where_nothing_is_planted(schedule: Plan) -> None:
    assert judge(run(schedule), schedule) == []


def test_what_is_forged_in_the_history_of_a_schedule_is_found() -> None:
    """What a run records is all that these promises are judged by. One run for all."""
    history = run(WAITS)
    for forge, invariant in ((refuse, "I3"), (leave, "I20"), (delay, "I22"), (forget, "I22")):
        forged = copy.deepcopy(history)
        forge(forged)
        assert invariant in {violation.invariant for violation in judge(forged, WAITS)}, forge


def refuse(history: History) -> None:
    """A producer says of a stored message that its send failed."""
    history.sends[3] = attrs.evolve(history.sends[3], outcome=Outcome.FAIL)


def leave(history: History) -> None:
    """A task is left over."""
    history.left_over.append("a task")


def delay(history: History) -> None:
    """A call takes longer than it may."""
    call = history.calls[3]
    call.answers[0] = call.began + call.within + 0.6


def forget(history: History) -> None:
    """A call is never answered."""
    history.calls[3].answers.clear()
