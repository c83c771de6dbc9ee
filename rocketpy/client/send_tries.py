"""The tries of a send that has no warm way, or whose first try has failed: routes, dials, pauses, other brokers.

All of them share the deadline of the send; what follows which failure is said in `retries`. Runs in the trio thread.
Plays the part of the loop in DefaultMQProducerImpl.sendDefaultImpl.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.client.outgoing import Outgoing
from rocketpy.client.retries import NotStoredOkError, SendKind, Then
from rocketpy.client.sending import Choice, RequestConnection, SendCore, Try
from rocketpy.client.verdict import verdict
from rocketpy.errors import BrokerError, RequestTimeoutError, RocketMQError, SendAttempt, rounded, unsent
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketpy.client.publish_info import TopicPublishInfo
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.connection import Connection
    from rocketpy.results import SendResult

__all__ = ["Sending", "is_go_away"]

_LEAST = 0.001
"""Seconds that a step has even when the time is up: it fails with an error of its own then."""


def is_go_away(error: BaseException) -> bool:
    """Whether a broker has asked us to go away: it stored nothing, and another connection to it may be better off."""
    return isinstance(error, BrokerError) and error.code == ResponseCode.GO_AWAY


@attrs.define(eq=False)
class Sending:
    """One send with what became of its tries so far."""

    core: SendCore
    outgoing: Outgoing
    kind: SendKind
    choice: Choice | None
    tries: int
    """How many there may be in all."""
    deadline: float
    timeout: float
    attempts: list[SendAttempt] = attrs.Factory(list)
    scope: trio.CancelScope | None = None
    """What ends the steps that have no deadline of their own."""

    # --- what tries came to ------------------------------------------------------------------------------

    def failed(self, attempt: Try[RequestConnection], error: RocketMQError) -> Then | None:
        """Keep what a try over a connection came to; what follows it, None when nothing does."""
        self.core.hooks_end(attempt, error)
        self.stay_at(attempt.queue)
        self.note(attempt.queue, attempt.broker_name, attempt.address, error, attempt.started)
        return self.then(error)

    def note(
        self, queue: MessageQueue, broker_name: str, address: str | None, error: RocketMQError, started: float
    ) -> None:
        """Keep what a try came to."""
        self.core.meter.note_failed_try(self.outgoing, broker_name)
        self.attempts.append(self.core.failed(queue, broker_name, address, error, started))

    def stay_at(self, queue: MessageQueue) -> None:
        """A selector is asked once: the tries that follow are for the queue that it chose."""
        if self.choice is not None:
            self.choice = lambda _: queue

    def then(self, error: RocketMQError) -> Then | None:
        """What follows the last try, which came to this; None when nothing does."""
        now = self.core.clock()
        if len(self.attempts) >= self.tries or now >= self.deadline:
            return None
        then = self.core.then(self.outgoing, self.kind, self.attempts, error)
        return then if then is not None and now + then.pause < self.deadline else None

    def outcome(self) -> SendResult:
        """What to answer when no try is left.

        Raises:
            RocketMQError: none of the tries was acknowledged.
        """
        for attempt in reversed(self.attempts):
            if isinstance(attempt.error, NotStoredOkError):
                return self.weak(attempt.error, attempt.broker_name)
        raise self.verdict()

    def weak(self, error: NotStoredOkError, broker_name: str) -> SendResult:
        """The message is stored, if not as safely as asked, and no other try follows."""
        self.core.meter.note_unmeasured(self.outgoing, broker_name)
        return error.result

    def gave_up(self) -> None:
        """The send has failed: no other try follows."""
        self.core.meter.note_failed(self.outgoing, self.attempts[-1].broker_name if self.attempts else "")

    def verdict(self) -> RocketMQError:
        """The error of a send whose tries all failed."""
        return verdict(self.outgoing.topic, self.attempts)

    # --- further tries -----------------------------------------------------------------------------------

    async def recover(self, attempt: Try[RequestConnection], error: RocketMQError) -> SendResult:
        """What becomes of a send whose first try has failed.

        Raises:
            RocketMQError: there is no other try, or none was acknowledged.
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
        """Try until it is acknowledged, or nothing may be tried any more.

        Args:
            then: what follows the try that has failed, None when none was made yet.

        Raises:
            RocketMQError: it was not acknowledged.
        """
        try:
            return await self._go_on(then)
        except RocketMQError:
            self.gave_up()
            raise

    async def _go_on(self, then: Then | None) -> SendResult:
        try:
            with trio.fail_at(self.deadline) as self.scope:
                return await self._try_again_and_again(then)
        except trio.TooSlowError as exc:
            if not self.attempts:
                raise self._never_begun() from exc
        except RocketMQError as error:
            if not self.attempts or self.core.was_forbidden(error):
                raise
        return self.outcome()

    async def _try_again_and_again(self, then: Then | None) -> SendResult:
        while True:
            if then is not None:
                await self.get_ready(then)
            before = len(self.attempts)
            try:
                return await self._one_try()
            except RocketMQError as error:
                if len(self.attempts) == before:  # there is no route: no other try would find one
                    raise
                then = self.then(error)
                if then is None:
                    raise

    async def get_ready(self, then: Then) -> None:
        """What comes before a try that follows another one."""
        await trio.sleep(then.pause)
        if not then.refresh:
            return
        budget = (self.deadline - self.core.clock()) / 2
        try:
            await self.core.client.routes.refresh(self.outgoing.topic, timeout=max(_LEAST, budget))
        except RocketMQError:
            return  # the route that we have may do

    async def route(self) -> TopicPublishInfo:
        """The queues of the topic, also of one that sending will create."""
        core, config = self.core, self.core.config
        return await core.client.routes.ensure(
            self.outgoing.topic,
            timeout=max(_LEAST, self.deadline - core.clock()),
            default_topic=config.create_topic_key,
            default_queue_nums=config.default_topic_queue_nums,
        )

    async def _one_try(self) -> SendResult:
        core = self.core
        queue = self.queue(await self.route())
        broker_name, address, started = queue.broker_name, None, core.clock()
        try:
            broker_name, address = core.target(queue)
            until = self.until(broker_name, started)
            connection = await core.client.pool.get(address, timeout=until - started)
            if self.outgoing.timed:
                await core.times.check(broker_name, address, timeout=(until - core.clock()) / 2)
            attempt = core.make_try(self.outgoing, queue, broker_name, address, connection, started)
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

    def queue(self, info: TopicPublishInfo) -> MessageQueue:
        """Where the next try goes."""
        failed = [each.broker_name for each in self.attempts]
        queue = self.core.choose(self.outgoing, info, self.choice, failed, oneway=self.kind is SendKind.ONEWAY)
        if failed:
            self.core.meter.note_retry(self.outgoing, queue.broker_name)
        self.stay_at(queue)
        return queue

    def until(self, broker_name: str, started: float) -> float:
        """When the try that begins now ends."""
        failed = {broker_name, *(attempt.broker_name for attempt in self.attempts)}
        others = self.core.others(self.outgoing, failed)
        left = self.tries - len(self.attempts)
        return self.core.until(self.kind, started, self.deadline, left, others=others)

    async def _move(self, attempt: Try[RequestConnection], until: float, gone: RocketMQError) -> SendResult:
        """The same try over a fresh connection: the broker has asked us to go away, and stored nothing."""
        core = self.core
        core.hooks_end(attempt, gone)
        attempt.connection.on_go_away()
        connection = await core.client.pool.get(attempt.address, timeout=max(_LEAST, until - core.clock()))
        again = core.make_try(
            attempt.outgoing, attempt.queue, attempt.broker_name, attempt.address, connection, core.clock()
        )
        return await self._exchange(again, until)

    async def _exchange(self, attempt: Try[Connection], until: float) -> SendResult:
        """Send and wait for the answer. The table of requests ends this, which lets what has arrived be read first."""
        try:
            return await self._asked(attempt, until)
        except RocketMQError as error:
            self.core.hooks_end(attempt, error)
            raise

    async def _asked(self, attempt: Try[Connection], until: float) -> SendResult:
        if self.scope is not None:
            self.scope.deadline = math.inf
        try:
            answer = await attempt.connection.exchange(attempt.opaque, attempt.frame, until)
        finally:
            if self.scope is not None:
                self.scope.deadline = self.deadline
        return self.core.finish(attempt, answer)

    def _never_begun(self) -> RocketMQError:
        """What to tell when there was no try at all."""
        if self.core.client.routes.publish_info(self.outgoing.topic) is None:
            return self.core.client.routes.too_late(self.outgoing.topic, self.timeout)
        text = f"no broker of {self.outgoing.topic} could be reached within {rounded(self.timeout)} s: nothing was sent"
        return unsent(RequestTimeoutError(text, timeout=self.timeout))
