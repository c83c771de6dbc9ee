"""The attempts of a send that cannot use the fast path, or whose first attempt has failed.

This is where a send waits for a route, a connection or a pause, and where it turns to other brokers. All attempts share
the deadline of the send. `retries` decides what follows a failure. Runs in the trio thread.
Plays the part of the loop in DefaultMQProducerImpl.sendDefaultImpl.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.client.preparing.outgoing import Outgoing
from rocketpy.client.retries import NotStoredOkError, SendKind, Then
from rocketpy.client.sends.sending import Attempt, Choice, RequestConnection, SendCore
from rocketpy.client.sends.verdict import verdict
from rocketpy.errors import BrokerError, RequestTimeoutError, RocketMQError, SendAttempt, rounded, unsent
from rocketpy.remoting.connection import Connection
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.message import MessageQueue
    from rocketpy.results import SendResult

__all__ = ["Sending", "is_go_away", "never_begun"]

_LEAST = 0.001
"""Seconds that a step gets even when the time is up, so that it fails with its own error."""


def is_go_away(error: BaseException) -> bool:
    """Whether a broker has asked us to go away: it stored nothing, and may accept the message over a new connection."""
    return isinstance(error, BrokerError) and error.code == ResponseCode.GO_AWAY


@attrs.define(eq=False)
class Sending:
    """One send and the outcomes of its attempts so far."""

    core: SendCore
    outgoing: Outgoing
    kind: SendKind
    choice: Choice | None
    tries: int
    """The largest number of attempts."""
    deadline: float
    timeout: float
    attempts: list[SendAttempt] = attrs.Factory(list)
    scope: trio.CancelScope | None = None
    """Ends the steps that have no deadline of their own."""

    # --- outcomes of attempts -------------------------------------------------------------------------------

    def failed(self, attempt: Attempt[RequestConnection], error: RocketMQError) -> Then | None:
        """Record a failed attempt over a connection. Returns what follows it, or None if nothing does."""
        self.core.hooks_end(attempt, error)
        self.stay_at(attempt.queue)
        self.note(attempt.queue, attempt.broker_name, attempt.address, error, attempt.started)
        return self.then(error)

    def note(
        self, queue: MessageQueue, broker_name: str, address: str | None, error: RocketMQError, started: float
    ) -> None:
        """Record a failed attempt."""
        self.core.meter.note_failed_attempt(self.outgoing, broker_name)
        self.attempts.append(self.core.failed(queue, broker_name, address, error, started))

    def stay_at(self, queue: MessageQueue) -> None:
        """Use this queue for all later attempts if it came from a selector, which is asked only once."""
        if self.choice is not None:
            self.choice = lambda _: queue

    def then(self, error: RocketMQError) -> Then | None:
        """Return what follows the last attempt, which failed with this error; None if nothing does."""
        now = self.core.clock()
        if len(self.attempts) >= self.tries or now >= self.deadline:
            return None
        then = self.core.then(self.outgoing, self.kind, self.attempts, error)
        return then if then is not None and now + then.pause < self.deadline else None

    def outcome(self) -> SendResult:
        """Return the result when no attempt is left.

        Raises:
            RocketMQError: no attempt was acknowledged.
        """
        for attempt in reversed(self.attempts):
            if isinstance(attempt.error, NotStoredOkError):
                return self.weak(attempt.error, attempt.broker_name)
        raise self.verdict()

    def weak(self, error: NotStoredOkError, broker_name: str) -> SendResult:
        """Return the result of a message that is stored, though less safely than asked; no other attempt follows."""
        self.core.meter.note_unmeasured(self.outgoing, broker_name)
        return error.result

    def gave_up(self) -> None:
        """Count the send as failed: no other attempt follows."""
        self.core.meter.note_failed(self.outgoing, self.attempts[-1].broker_name if self.attempts else "")

    def verdict(self) -> RocketMQError:
        """Return the error of a send whose attempts all failed."""
        return verdict(self.outgoing.topic, self.attempts)

    # --- further attempts -----------------------------------------------------------------------------------

    async def recover(self, attempt: Attempt[RequestConnection], error: RocketMQError) -> SendResult:
        """Continue a send whose first attempt has failed.

        Raises:
            RocketMQError: no other attempt is allowed, or none was acknowledged.
        """
        if is_go_away(error):
            try:
                return await self._move(attempt, self.deadline, error)
            except RocketMQError as second:
                if self.core.was_forbidden(second):
                    raise
                error = second
        then = self.failed(attempt, error)
        if then is not None:
            return await self.go_on(then)
        if isinstance(error, NotStoredOkError):
            return self.weak(error, attempt.broker_name)
        self.gave_up()
        raise error

    async def go_on(self, then: Then | None = None) -> SendResult:
        """Try until the message is acknowledged or no attempt is left.

        Args:
            then: What follows the failed attempt; None if none was made yet.

        Raises:
            RocketMQError: the message was not acknowledged.
        """
        try:
            return await self._go_on(then)
        except RocketMQError:
            self.gave_up()
            raise

    async def _go_on(self, then: Then | None) -> SendResult:
        try:
            # Not `fail_at`: a TooSlowError is a hook's or a selector's own, which reaches the sender.
            with trio.move_on_at(self.deadline) as self.scope:
                return await self._try_again_and_again(then)
        except RocketMQError as error:
            if not self.attempts or self.core.was_forbidden(error):
                raise
            return self.outcome()
        if not self.attempts:
            raise never_begun(self.core, self.outgoing.topic, self.timeout)
        return self.outcome()

    async def _try_again_and_again(self, then: Then | None) -> SendResult:
        while True:
            if then is not None:
                await self.get_ready(then)
            before = len(self.attempts)
            try:
                return await self._one_attempt()
            except RocketMQError as error:
                if len(self.attempts) == before:  # there is no route, and another attempt would not find one
                    raise
                then = self.then(error)
                if then is None:
                    raise

    async def get_ready(self, then: Then) -> None:
        """Pause, and refresh the route if needed, before another attempt."""
        await trio.sleep(then.pause)
        if not then.refresh:
            return
        budget = (self.deadline - self.core.clock()) / 2
        try:
            await self.core.client.routes.refresh(self.outgoing.topic, timeout=max(_LEAST, budget))
        except RocketMQError:
            return  # the old route may still be right

    async def route(self) -> TopicPublishInfo:
        """Return the queues of the topic, or those of the default topic if sending will create it."""
        core, config = self.core, self.core.config
        return await core.client.routes.ensure(
            self.outgoing.topic,
            timeout=max(_LEAST, self.deadline - core.clock()),
            default_topic=config.create_topic_key,
            default_queue_nums=config.default_topic_queue_nums,
        )

    async def _one_attempt(self) -> SendResult:
        core = self.core
        queue = self.queue(await self.route())
        broker_name, address, started = queue.broker_name, None, core.clock()
        try:
            broker_name, address = core.target(queue)
            until = self.until(broker_name, started)
            connection = await core.client.pool.get(address, timeout=until - started)
            if self.outgoing.timed:
                await core.versions.check_timing(broker_name, address, timeout=(until - core.clock()) / 2)
            self.renew()
            attempt = core.make_attempt(self.outgoing, queue, broker_name, address, connection, started)
            try:
                return await self._exchange(attempt, until)
            except BrokerError as error:
                if not is_go_away(error):
                    raise
                gone = error
            return await self._move(attempt, until, gone)
        except RocketMQError as error:
            if core.was_forbidden(error):
                raise
            self.note(queue, broker_name, address, error, started)
            raise

    def renew(self) -> None:
        """Take what is to be sent by now, before it is handed to a connection for the first time."""
        renew, self.outgoing.renew = self.outgoing.renew, None
        if renew is not None:
            self.outgoing = renew()

    def queue(self, info: TopicPublishInfo) -> MessageQueue:
        """Choose the queue of the next attempt."""
        failed = [each.broker_name for each in self.attempts]
        queue = self.core.choose(self.outgoing, info, self.choice, failed, oneway=self.kind is SendKind.ONEWAY)
        if failed:
            self.core.meter.note_retry(self.outgoing, queue.broker_name)
        self.stay_at(queue)
        return queue

    def until(self, broker_name: str, started: float) -> float:
        """Return the deadline of the attempt that begins now."""
        failed = {broker_name, *(attempt.broker_name for attempt in self.attempts)}
        others = self.core.others(self.outgoing, failed)
        left = self.tries - len(self.attempts)
        return self.core.until(self.kind, started, self.deadline, left, others=others)

    async def _move(self, attempt: Attempt[RequestConnection], until: float, gone: RocketMQError) -> SendResult:
        """Repeat an attempt over a new connection, because the broker has asked us to go away and stored nothing.

        After a data connection this is the pool's, which may be as old: the broker may send us away there once more.
        """
        core = self.core
        is_new = isinstance(attempt.connection, Connection)
        core.hooks_end(attempt, gone)
        while True:
            attempt.connection.on_go_away()
            connection = await core.client.pool.get(attempt.address, timeout=max(_LEAST, until - core.clock()))
            again = core.make_attempt(
                attempt.outgoing, attempt.queue, attempt.broker_name, attempt.address, connection, core.clock()
            )
            try:
                return await self._exchange(again, until)
            except BrokerError as error:
                if is_new or not is_go_away(error):
                    raise
            attempt, is_new = again, True

    async def _exchange(self, attempt: Attempt[Connection], until: float) -> SendResult:
        """Send and wait for the answer. The connection enforces `until`, after reading what has already arrived."""
        try:
            return await self._asked(attempt, until)
        except RocketMQError as error:
            self.core.hooks_end(attempt, error)
            raise

    async def _asked(self, attempt: Attempt[Connection], until: float) -> SendResult:
        if self.scope is not None:
            self.scope.deadline = math.inf
        try:
            answer = await attempt.connection.exchange(attempt.opaque, attempt.frame, until)
        finally:
            if self.scope is not None:
                self.scope.deadline = self.deadline
        return self.core.finish(attempt, answer)


def never_begun(core: SendCore, topic: str, timeout: float) -> RocketMQError:
    """Return the error of a message that no connection has got within its timeout."""
    if core.client.routes.publish_info(topic) is None:
        return core.client.routes.too_late(topic, timeout)
    text = f"no broker of {topic} could be reached within {rounded(timeout)} s: nothing was sent"
    return unsent(RequestTimeoutError(text, timeout=timeout))
