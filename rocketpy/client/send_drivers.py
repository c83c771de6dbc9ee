"""The two ways to drive a send: awaited by the task that wants it, or called back when it is done.

Both try once without any policy, scope or task of its own; only what that try leaves over takes the slow way: looking
up the route, dialling, trying other brokers. Every try of a send shares one deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.client.outgoing import Outgoing
from rocketpy.client.sending import Choice, NotStoredOkError, SendCore, Try, verdict
from rocketpy.errors import (
    BrokerError,
    ClientClosedError,
    ConnectError,
    RequestTimeoutError,
    RocketMQError,
    SendAttempt,
    SystemBusyError,
    TooManyRequestsError,
)
from rocketpy.logs import get_logger
from rocketpy.remoting.backoff import FullJitter, retrying
from rocketpy.results import SendResult
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    import tenacity

    from rocketpy.wire.frame import Frame

__all__ = ["Cancel", "Done", "send", "send_oneway", "start_send"]

logger = get_logger(__name__)

Done = Callable[[SendResult | Exception], None]
"""Told once how a send went, in the trio thread; must not raise.

An error that is none of ours was raised by a selector or a hook of whoever sends.
"""

Cancel = Callable[[], None]
"""Gives up a send that is under way."""


@attrs.define(eq=False)
class _Send:
    """One send with what became of its tries so far."""

    core: SendCore
    outgoing: Outgoing
    choice: Choice | None
    tries: int
    """How many there may be in all."""
    only_unsent: bool
    """Whether to try again only what no broker has taken, so that nothing is stored twice, or behind what follows."""
    deadline: float
    timeout: float
    attempts: list[SendAttempt] = attrs.Factory(list)
    under_way: Try | None = None
    """The try that waits for its answer."""

    def note(self, broker_name: str, address: str | None, error: RocketMQError, started: float) -> None:
        """Keep what a try came to."""
        self.attempts.append(self.core.failed(broker_name, address, error, started))

    def may_go_on(self, error: RocketMQError) -> bool:
        """Whether there is another try."""
        return len(self.attempts) < self.tries and trio.current_time() < self.deadline and self.is_worth_another(error)

    def is_worth_another(self, error: BaseException) -> bool:
        """Whether a try after this error may do better."""
        if self.only_unsent and not isinstance(error, ConnectError | BrokerError):
            return False
        return self.core.is_worth_another(error)

    def outcome(self) -> SendResult:
        """What to answer when no try is left.

        Raises:
            RocketMQError: none of the tries was acknowledged.
        """
        for attempt in reversed(self.attempts):
            if isinstance(attempt.error, NotStoredOkError):
                return attempt.error.result
        raise verdict(self.outgoing.topic, self.attempts)

    # --- the slow way ------------------------------------------------------------------------------------

    async def go_on(self) -> SendResult:
        """Try until it is acknowledged, or nothing may be tried any more."""
        try:
            with trio.fail_at(self.deadline):
                return await self._try_again_and_again(max(1, self.tries - len(self.attempts)))
        except trio.TooSlowError as exc:
            if self.under_way is not None:
                self._note_unanswered(self.under_way)
            elif not self.attempts:
                if self.core.client.routes.publish_info(self.outgoing.topic) is None:
                    raise self.core.client.routes.too_late(self.outgoing.topic, self.timeout) from exc
                raise RequestTimeoutError(
                    f"no broker of {self.outgoing.topic} could be reached within {self.timeout:g} s",
                    timeout=self.timeout,
                ) from exc
        except RocketMQError:
            if not self.attempts:
                raise
        return self.outcome()

    def _note_unanswered(self, attempt: Try) -> None:
        """Keep that a try was cut off by the end of all time: nobody may take its message for one never sent."""
        error = RequestTimeoutError(
            f"no answer from {attempt.address} within {self.timeout:g} s; whether it stores the message is unknown",
            address=attempt.address,
            timeout=self.timeout,
        )
        self.note(attempt.broker_name, attempt.address, error, attempt.started)

    async def _try_again_and_again(self, allowed: int) -> SendResult:
        """The first time without a policy, which is for what follows a failure."""
        try:
            return await self._one_try()
        except RocketMQError as error:
            if allowed == 1 or not self.is_worth_another(error):
                raise
            pause = _pause_after(error, 1)
        policy = retrying(attempts=allowed - 1, wait=_later_pause, worth_it=self.is_worth_another)
        await trio.sleep(pause)
        result: SendResult = await policy(self._one_try)
        return result

    async def _one_try(self) -> SendResult:
        core, config = self.core, self.core.config
        info = await core.client.routes.ensure(
            self.outgoing.topic,
            timeout=self.deadline - trio.current_time(),
            default_topic=config.create_topic_key,
            default_queue_nums=config.default_topic_queue_nums,
        )
        avoid = self.attempts[-1].broker_name if self.attempts else None
        queue = core.choose(self.outgoing, info, self.choice, avoid)
        broker_name, address = core.target(queue)
        started = trio.current_time()
        try:
            connection = await core.client.pool.get(address, timeout=self.deadline - started)
            attempt = self.under_way = core.make_try(self.outgoing, queue, broker_name, address, connection, started)
            try:
                return core.finish(attempt, await connection.exchange(attempt.opaque, attempt.frame, self.deadline))
            except BrokerError as error:
                if error.code != ResponseCode.GO_AWAY:
                    raise
            return await self._move(attempt)
        except RocketMQError as error:
            self.under_way = None
            self.note(broker_name, address, error, started)
            raise

    async def _move(self, attempt: Try) -> SendResult:
        """The same try over a fresh connection: the broker has asked us to go away, and stored nothing."""
        core, pool = self.core, self.core.client.pool
        pool.retire(attempt.connection)
        connection = await pool.get(attempt.address, timeout=max(0.001, self.deadline - trio.current_time()))
        again = core.make_try(
            attempt.outgoing, attempt.queue, attempt.broker_name, attempt.address, connection, trio.current_time()
        )
        return core.finish(again, await connection.exchange(again.opaque, again.frame, self.deadline))

    async def recover(self, attempt: Try, error: RocketMQError) -> SendResult:
        """What becomes of a send whose first try has failed.

        Raises:
            RocketMQError: there is no other try, or none was acknowledged.
        """
        if isinstance(error, BrokerError) and error.code == ResponseCode.GO_AWAY:
            try:
                return await self._move(attempt)
            except RocketMQError as second:
                error = second
        self.note(attempt.broker_name, attempt.address, error, attempt.started)
        if self.may_go_on(error):
            return await self.go_on()
        if isinstance(error, NotStoredOkError):
            return error.result
        raise error


_busy = FullJitter(0.02, 1.0)


def _pause_after(error: BaseException | None, failures: int) -> float:
    """A broker that is busy gets a moment; every other failure is answered by another broker at once."""
    return _busy.after(failures) if isinstance(error, SystemBusyError) else 0.0


def _later_pause(state: tenacity.RetryCallState) -> float:
    """The same for the tries that follow the first one."""
    return _pause_after(state.outcome.exception() if state.outcome is not None else None, state.attempt_number + 1)


# --- awaited -------------------------------------------------------------------------------------------


async def send(core: SendCore, outgoing: Outgoing, choice: Choice | None, tries: int, timeout: float) -> SendResult:
    """Send and wait for the answer.

    Raises:
        RocketMQError: it was not acknowledged; unless the error says otherwise the outcome is unknown.
    """
    started = trio.current_time()
    deadline = started + timeout
    attempt = core.begin(outgoing, choice, started)
    if attempt is None:
        return await _Send(core, outgoing, choice, tries, False, deadline, timeout).go_on()
    try:
        return core.finish(attempt, await attempt.connection.exchange(attempt.opaque, attempt.frame, deadline))
    except RocketMQError as error:
        return await _Send(core, outgoing, choice, tries, False, deadline, timeout).recover(attempt, error)


async def send_oneway(core: SendCore, outgoing: Outgoing, *, choice: Choice | None, timeout: float) -> None:
    """Send once and ask for no answer; waits only while the connection is full, or is not there yet.

    Raises:
        RequestTimeoutError: the broker does not read what is sent to it.
        RocketMQError: it could not even be written.
    """
    deadline = trio.current_time() + timeout
    config, routes = core.config, core.client.routes
    info = routes.publish_info(outgoing.topic)
    if info is None:
        info = await routes.ensure(
            outgoing.topic,
            timeout=timeout,
            default_topic=config.create_topic_key,
            default_queue_nums=config.default_topic_queue_nums,
        )
    queue = core.choose(outgoing, info, choice, None)
    broker_name, address = core.target(queue)
    connection = core.client.pool.nowait(address)
    if connection is None:
        connection = await core.client.pool.get(address, timeout=max(0.001, deadline - trio.current_time()))
    connection.send_frame(core.oneway_frame(outgoing, queue, broker_name, connection))
    await connection.take_turn()
    if not connection.is_full:
        return
    with trio.move_on_at(deadline):
        await connection.wait_writable()
        return
    raise RequestTimeoutError(
        f"{address} has not read for {timeout:g} s; whether a message for {outgoing.topic} gets there is unknown",
        address=address,
        timeout=timeout,
    )


# --- called back ---------------------------------------------------------------------------------------


def start_send(
    core: SendCore,
    outgoing: Outgoing,
    done: Done,
    *,
    nursery: trio.Nursery,
    choice: Choice | None,
    tries: int,
    timeout: float,
    only_unsent: bool = False,
) -> Cancel:
    """Begin a send and return; `done` hears how it went. Runs in the trio thread.

    Args:
        core: of the producer.
        outgoing: what to send.
        done: called once.
        nursery: where the slow way runs when it is needed.
        choice: who chooses the queue, None for us.
        tries: how many there may be.
        timeout: seconds for all of them.
        only_unsent: whether another try follows only where no broker has taken the one before.

    Returns:
        What gives the send up, in the trio thread, unless it has ended: `done` hears of that soon, too.
    """
    started = trio.current_time()
    deadline = started + timeout
    try:
        attempt = core.begin(outgoing, choice, started)
    except RocketMQError as error:
        done(error)
        return _nothing
    if attempt is None:
        sending = _Send(core, outgoing, choice, tries, only_unsent, deadline, timeout)
        return _finish_in(nursery, sending, done, sending.go_on)
    answered = _Answered(core, choice, tries, only_unsent, deadline, timeout, done, nursery, attempt)
    try:
        attempt.connection.start_request(attempt.opaque, attempt.frame, deadline, answered)
    except TooManyRequestsError:
        sending = answered.sending()
        return _finish_in(nursery, sending, done, sending.go_on)
    except RocketMQError as error:
        answered(error)
    return answered.cancel


def _nothing() -> None:
    """Gives up what has ended."""


@attrs.define(eq=False)
class _Answered:
    """Takes the answer to the first try. One object for each send: there may be very many under way."""

    core: SendCore
    choice: Choice | None
    tries: int
    only_unsent: bool
    deadline: float
    timeout: float
    done: Done
    nursery: trio.Nursery
    attempt: Try
    cancel_slow: Cancel | None = None
    """Gives up the tries after the first one."""

    def __call__(self, answer: Frame | RocketMQError) -> None:
        attempt = self.attempt
        try:
            if isinstance(answer, RocketMQError):
                raise answer
            result = self.core.finish(attempt, answer)
        except RocketMQError as error:
            self.failed(error)
        except Exception as error:  # noqa: BLE001 - whatever a hook raises belongs to whoever sends
            self.done(error)
        else:
            self.done(result)

    def failed(self, error: RocketMQError) -> None:
        """Try again where there is another try."""
        attempt, sending = self.attempt, self.sending()
        if isinstance(error, BrokerError) and error.code == ResponseCode.GO_AWAY:
            rest = partial(sending.recover, attempt, error)
            self.cancel_slow = _finish_in(self.nursery, sending, self.done, rest)
            return
        sending.note(attempt.broker_name, attempt.address, error, attempt.started)
        if sending.may_go_on(error):
            self.cancel_slow = _finish_in(self.nursery, sending, self.done, sending.go_on)
        else:
            self.done(error.result if isinstance(error, NotStoredOkError) else error)

    def cancel(self) -> None:
        """Give the send up, unless it has ended."""
        if self.cancel_slow is not None:
            self.cancel_slow()
        elif self.attempt.connection.give_up(self.attempt.opaque):
            self.done(_given_up(self.attempt.outgoing))

    def sending(self) -> _Send:
        """The send as the slow way wants it."""
        core, outgoing = self.core, self.attempt.outgoing
        return _Send(core, outgoing, self.choice, self.tries, self.only_unsent, self.deadline, self.timeout)


def _finish_in(nursery: trio.Nursery, sending: _Send, done: Done, rest: Callable[[], Awaitable[SendResult]]) -> Cancel:
    """Run the rest of a send in a task; `done` hears of it also when the nursery has ended and takes no task."""
    scope = trio.CancelScope()
    try:
        nursery.start_soon(_finish_slowly, sending, done, rest, scope)
    except RuntimeError:  # what trio raises then
        done(_given_up(sending.outgoing))
    return scope.cancel


def _given_up(outgoing: Outgoing) -> ClientClosedError:
    return ClientClosedError(
        f"a message for {outgoing.topic} was given up before it was acknowledged, or the producer was closed"
    )


async def _finish_slowly(
    sending: _Send, done: Done, rest: Callable[[], Awaitable[SendResult]], scope: trio.CancelScope
) -> None:
    # Whoever waits hears of it even when this task is cancelled: by whoever gave the send up, or by closing.
    outcome: SendResult | Exception = _given_up(sending.outgoing)
    try:
        with scope:
            outcome = await rest()
    except Exception as error:  # noqa: BLE001 - also what a selector or a hook of whoever sends raises
        outcome = error
    finally:
        done(outcome)
