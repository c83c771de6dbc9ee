"""Checks: answers brokers' checks of transactions. The settings bound how many checkers run and how many checks wait.

If a broker checks a transaction again while the first check waits or runs, the two are merged, and the answer names the
half message of the second. Checks for which there is no room are dropped, because the broker sends them again. If a
checker raises, or returns anything but a state, the state is UNKNOWN, so that nothing is ever committed by mistake. A
checker that hangs occupies one of the workers, and the log reports it. Plays the part of checkTransactionState in
DefaultMQProducerImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs
import trio

from rocketpy.client.call import oneway
from rocketpy.client.transactions import answer_of, end_command
from rocketpy.errors import RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.producer.local_half import judged, raised
from rocketpy.reprs import Short
from rocketpy.services import in_service, is_from_outside

if TYPE_CHECKING:
    from rocketpy.client.attempt import Tracer
    from rocketpy.client.roles import TransactionQuestion
    from rocketpy.config import TransactionProducerConfig
    from rocketpy.message import MessageExt
    from rocketpy.producer.local_half import Checker, Outcome
    from rocketpy.remoting.pool import ConnectionPool

__all__ = ["CallChecker", "Checks", "ChecksStatistics"]

log = get_logger(__name__)

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of messages in checks that wait."""
LONG = 30.0
"""Seconds after which the log reports a checker that has not returned."""
_ANSWER_WITHIN = 3.0
_WHAT = "checker"

CallChecker: TypeAlias = "Callable[[Checker, MessageExt], Awaitable[object]]"
"""Calls a checker where the user's code runs on this surface; raises what the checker raises."""


@attrs.frozen(repr=False)
class ChecksStatistics(Short):
    """Counts of checks since the producer was opened."""

    waiting: int
    """Checks that wait for a worker."""
    running: int
    """Checkers that are running."""
    answered: int
    """Answers that were sent, including UNKNOWN."""
    failed: int
    """Calls in which the checker raised or did not return a state."""
    dropped: int
    """Checks that were dropped because too many waited."""


class _Check:
    """A check, with the address for the answer."""

    __slots__ = ("question", "size")

    def __init__(self, question: TransactionQuestion) -> None:
        self.question = question
        self.size = question.message.store_size


class Checks:
    """The checks of one producer.

    Args:
        config: the settings of the producer.
        pool: the connections to brokers.
        checker: the user's function.
        call: calls the checker.
        tracer: records answers before they are sent; None without message traces.
    """

    def __init__(
        self,
        config: TransactionProducerConfig,
        pool: ConnectionPool,
        checker: Checker,
        call: CallChecker,
        tracer: Tracer | None = None,
    ) -> None:
        self._config = config
        self._pool = pool
        self._checker = checker
        self._call = call
        self._tracer = tracer
        self._waiting: dict[tuple[str, str], _Check] = {}
        self._running: dict[tuple[str, str], _Check] = {}
        self._bytes = 0
        self._lot = trio.lowlevel.ParkingLot()
        self._answered = self._failed = self._dropped = 0
        self._seldom = Seldom(log, clock=trio.current_time)

    def statistics(self) -> ChecksStatistics:
        """Return the counts."""
        return ChecksStatistics(len(self._waiting), len(self._running), self._answered, self._failed, self._dropped)

    def take(self, question: TransactionQuestion) -> None:
        """Queue a check for a worker. Does not wait."""
        key = question.header.bname or question.address, question.message.message_id
        known = self._running.get(key) or self._waiting.get(key)
        if known is not None:
            known.question = question
            return
        check = _Check(question)
        if len(self._waiting) >= self._config.check_request_hold_max or self._bytes + check.size > MOST_BYTES:
            self._dropped += 1
            self._seldom.warning(
                "full",
                "group %s: dropped a transaction check from %s, because %d are waiting already",
                self._config.group,
                question.address,
                len(self._waiting),
            )
            return
        self._waiting[key] = check
        self._bytes += check.size
        self._lot.unpark()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run the workers, until cancelled."""
        with in_service():
            await self._run()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(self._config.check_thread_pool_max_size):
                nursery.start_soon(self._work)
            await self._watch()

    @trio.lowlevel.enable_ki_protection
    async def _work(self) -> None:
        while True:
            while not self._waiting:
                await self._lot.park()
            key = next(iter(self._waiting))
            check = self._running[key] = self._waiting.pop(key)
            self._bytes -= check.size
            try:
                await self._answer(check, await self._outcome(check))
            finally:
                del self._running[key]

    async def _outcome(self, check: _Check) -> Outcome:
        """Call the user's checker, and send its answer."""
        message = check.question.message
        try:
            outcome = judged(_WHAT, await self._call(self._checker, message))
        except BaseException as exc:
            if is_from_outside(exc):
                raise
            outcome = raised(_WHAT, exc)  # any exception means UNKNOWN
        if outcome.problem is not None:
            self._failed += 1
            self._seldom.error(
                ("checker", type(outcome.error)),
                "group %s: the state of the transaction %s stays UNKNOWN: %s",
                self._config.group,
                message.message_id,
                outcome.line,
                exc_info=outcome.raised,
            )
            # The traceback of the error refers to this frame: such a cycle would live until the next full collection.
            outcome = outcome._replace(error=None)
        return outcome

    async def _answer(self, check: _Check, outcome: Outcome) -> None:
        question = check.question  # the latest copy of the half message
        if self._tracer is not None:
            message, address = question.message, question.address
            properties, unique_id = message.wire_properties, message.message_id
            self._tracer.ended(
                message.topic, properties, unique_id, message.transaction_id, address, outcome.state, from_check=True
            )
        command = end_command(answer_of(question, outcome.state, self._config.group), outcome.problem)
        try:
            await oneway(self._pool, question.address, command, timeout=_ANSWER_WITHIN)
        except RocketMQError as exc:
            self._seldom.warning(
                question.address, "the answer to a transaction check did not reach %s: %s", question.address, exc
            )
        else:
            self._answered += 1

    async def _watch(self) -> None:
        """Report checkers that do not return."""
        told: set[int] = set()
        since: dict[int, tuple[_Check, float]] = {}
        while True:
            await trio.sleep(LONG / 3)
            now, running = trio.current_time(), {id(check): check for check in self._running.values()}
            since = {number: since.get(number, (check, now)) for number, check in running.items()}
            told &= since.keys()
            for number, (check, began) in since.items():
                if now - began >= LONG and number not in told:
                    told.add(number)
                    log.warning(
                        "group %s: the checker has not returned for the transaction %s after %.0f s; %d of %d workers "
                        "are busy",
                        self._config.group,
                        check.question.message.message_id,
                        now - began,
                        len(running),
                        self._config.check_thread_pool_max_size,
                    )
