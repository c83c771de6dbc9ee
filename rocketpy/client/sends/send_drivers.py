"""The ways to drive a send: awaited by the task that wants it, or called back when it is done.

Each tries once without any scope or task of its own; only what that attempt leaves over takes the slow way, which is in
`send_attempts`. Every attempt of a send shares one deadline, and so does the wait for the turn of its sharding key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.client.preparing.outgoing import Outgoing
from rocketpy.client.retries import NotStoredOkError, SendKind
from rocketpy.client.sends.key_order import Key, KeyWaiter
from rocketpy.client.sends.send_attempts import Sending, is_go_away
from rocketpy.client.sends.sending import Attempt, Choice, RequestConnection, SendCore
from rocketpy.client.sends.waiting import pass_turn, take_turn, too_late_for
from rocketpy.errors import ClientClosedError, RocketMQError, TooManyRequestsError
from rocketpy.message import PropertyName
from rocketpy.remoting.connection import Connection
from rocketpy.results import SendResult
from rocketpy.services import only_cancelled

if TYPE_CHECKING:
    from rocketpy.wire.frame import Frame

__all__ = ["Cancel", "Done", "given_up", "resume_send", "send", "start_send"]

Done = Callable[[SendResult | BaseException], None]
"""Told once how a send went, in the trio thread; must not raise.

An error that is none of ours was raised by a selector or a hook of the user's, a SystemExit too: in the background
it would end what belongs to others.
"""

Cancel = Callable[[], None]
"""Gives up a send that is under way."""

_PLAIN, _KEYED, _QUEUE, _FRAME = SendKind.PLAIN, SendKind.KEYED, SendKind.QUEUE, SendKind.FRAME
_SHARDING_KEY = PropertyName.SHARDING_KEY


# --- awaited -------------------------------------------------------------------------------------------


async def send(core: SendCore, outgoing: Outgoing, choice: Choice | None, tries: int, timeout: float) -> SendResult:
    """Send and wait for the answer.

    Raises:
        RocketMQError: it was not acknowledged; unless the error says otherwise the outcome is unknown.
    """
    started = core.clock()
    deadline = started + timeout
    kind, key = _PLAIN, None
    if choice is not None:
        kind = _QUEUE
    elif outgoing.is_reply:
        kind = SendKind.REPLY
    elif (sharding_key := outgoing.message.wire_properties.get(_SHARDING_KEY)) is not None:
        kind, key = _KEYED, (outgoing.message.topic, sharding_key)
        await take_turn(core.order, key, deadline, timeout)
    try:  # nothing comes in between, where Ctrl-C could strike
        if key is not None:
            started = core.clock()
        attempt = core.begin(outgoing, choice, started, core.client.pool.nowait)
        if attempt is None:
            return await Sending(core, outgoing, kind, choice, tries, deadline, timeout).go_on()
        until = core.until(kind, started, deadline, tries, others=attempt.others)
        try:
            connection = attempt.connection
            exchange = connection.exchange_send if attempt.command is None else connection.exchange
            return core.finish(attempt, await exchange(attempt.opaque, attempt.frame, until))
        except RocketMQError as error:
            return await Sending(core, outgoing, kind, choice, tries, deadline, timeout).recover(attempt, error)
    finally:
        if key is not None:
            pass_turn(core.order, key)


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
    in_order: bool = False,
    has_key: bool = False,
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
        in_order: whether it is a frame that others follow in its queue.
        has_key: whether the caller has the lane of its sharding key already, and passes it on when `done` is called.

    Returns:
        What gives the send up, in the trio thread, unless it has ended: `done` hears of that soon, too.
    """
    deadline = core.clock() + timeout
    kind = _FRAME if in_order else core.kind(outgoing, choice)
    sending = _CallbackSend(core, outgoing, kind, choice, tries, deadline, timeout, done, nursery)
    if kind is not _KEYED or has_key:
        return sending.begin()
    key = sending.in_lane()
    if core.order.try_take(key):
        return sending.begin()
    return _InLine(sending, key).queue()


def resume_send(
    core: SendCore,
    attempt: Attempt[RequestConnection],
    error: RocketMQError,
    done: Done,
    *,
    nursery: trio.Nursery,
    choice: Choice | None,
    tries: int,
    deadline: float,
    timeout: float,
) -> Cancel:
    """Go on with a send whose first attempt was made elsewhere and has failed. Runs in the trio thread.

    The maker of that attempt has the turn of its sharding key, if there is one, and passes it on when `done` is called.

    Args:
        core: of the producer.
        attempt: the failed one.
        error: what it came to.
        done: called once, perhaps before this returns.
        nursery: where the rest runs.
        choice: who chose the queue, None for us.
        tries: how many there may be, with the one that was made.
        deadline: of the send, on trio's clock.
        timeout: the seconds that it was given in all.

    Returns:
        What gives the send up, in the trio thread, unless it has ended.
    """
    kind = core.kind(attempt.outgoing, choice)
    sending = _CallbackSend(core, attempt.outgoing, kind, choice, tries, deadline, timeout, done, nursery)
    return sending.failed(attempt, error) or _nothing


def _nothing() -> None:
    """Gives up what has ended."""


@attrs.define(eq=False)
class _CallbackSend:
    """A send that is called back: what to send, and who hears of it."""

    core: SendCore
    outgoing: Outgoing
    kind: SendKind
    choice: Choice | None
    tries: int
    deadline: float
    timeout: float
    done: Done
    nursery: trio.Nursery

    def in_lane(self) -> Key:
        """Pass the turn of its sharding key on when it has ended."""
        message = self.outgoing.message
        key = message.topic, message.wire_properties[_SHARDING_KEY]
        self.done = partial(_end_in_lane, self.core, key, self.done)
        return key

    def begin(self) -> Cancel:
        """Try once, or take the slow way at once."""
        core, started = self.core, self.core.clock()
        try:
            attempt = core.begin(self.outgoing, self.choice, started, core.client.pool.nowait)
        except RocketMQError as error:
            self.done(error)
            return _nothing
        if attempt is None:
            sending = self.sending()
            return _finish_in(self.nursery, sending, self.done, sending.go_on)
        until = core.until(self.kind, started, self.deadline, self.tries, others=attempt.others)
        answered = _Answered(self, attempt)
        try:
            attempt.connection.start_request(attempt.opaque, attempt.frame, until, answered)
        except TooManyRequestsError as error:
            core.hooks_end(attempt, error)
            sending = self.sending()
            return _finish_in(self.nursery, sending, self.done, sending.go_on)
        except RocketMQError as error:
            answered(error)
        else:
            if self.outgoing.renew is not None:
                self.outgoing.renew = None
        return answered.cancel

    def failed(self, attempt: Attempt[RequestConnection], error: RocketMQError) -> Cancel | None:
        """Try again where there is another attempt; what gives that up."""
        sending = self.sending()
        if is_go_away(error):
            return _finish_in(self.nursery, sending, self.done, partial(sending.recover, attempt, error))
        then = sending.failed(attempt, error)
        if then is not None:
            return _finish_in(self.nursery, sending, self.done, partial(sending.go_on, then))
        if isinstance(error, NotStoredOkError):
            self.done(sending.weak(error, attempt.broker_name))
        else:
            sending.gave_up()
            self.done(error)
        return None

    def sending(self) -> Sending:
        """The send as the slow way wants it."""
        return Sending(self.core, self.outgoing, self.kind, self.choice, self.tries, self.deadline, self.timeout)


@attrs.define(eq=False)
class _Answered:
    """Takes the answer to the first attempt. One object for each send: there may be very many under way."""

    send: _CallbackSend
    attempt: Attempt[Connection]
    cancel_slow: Cancel | None = None
    """Gives up the attempts after the first one."""

    def __call__(self, answer: Frame | RocketMQError) -> None:
        sending = self.send
        try:
            if isinstance(answer, RocketMQError):
                raise answer
            result = sending.core.finish(self.attempt, answer)
        except RocketMQError as error:
            self.cancel_slow = sending.failed(self.attempt, error)
        except BaseException as error:  # noqa: BLE001 - what a hook raises belongs to the sender
            sending.done(error)
        else:
            sending.done(result)

    def cancel(self) -> None:
        """Give the send up, unless it has ended."""
        if self.cancel_slow is not None:
            self.cancel_slow()
        elif self.attempt.connection.give_up(self.attempt.opaque):
            self.send.done(given_up(self.send.outgoing))


# --- in the lane of a key --------------------------------------------------------------------------------


def _end_in_lane(core: SendCore, key: Key, done: Done, outcome: SendResult | BaseException) -> None:
    try:
        done(outcome)
    finally:
        core.order.pass_on(key)


@attrs.define(eq=False)
class _InLine:
    """A send that is called back and waits for the turn of its sharding key."""

    send: _CallbackSend
    key: Key
    waiter: KeyWaiter | None = None
    give_up: Cancel | None = None
    """Gives it up when its turn has come."""
    cancelled: bool = False

    def queue(self) -> Cancel:
        """Wait for the turn."""
        sending, core = self.send, self.send.core
        self.waiter = core.order.take(self.key, self._came)
        if self.waiter is None:
            return sending.begin()
        if self.waiter.waits:
            core.waits.watch(self.waiter, sending.deadline, self._too_late)
        return self.cancel

    def _came(self) -> None:
        """The turn has come: called on any thread."""
        try:
            self.send.core.home.call(self._begin)
        except trio.RunFinishedError:
            self.send.done(given_up(self.send.outgoing))

    def _begin(self) -> None:
        sending = self.send
        if self.cancelled or not sending.core.is_open:
            sending.done(given_up(sending.outgoing))
        elif sending.core.clock() >= sending.deadline:
            sending.done(too_late_for(self.key, sending.timeout))
        else:
            try:
                self.give_up = sending.begin()
            except BaseException as error:  # noqa: BLE001 - what a hook raises belongs to the sender
                sending.done(error)

    def _too_late(self) -> None:
        self._leave(too_late_for(self.key, self.send.timeout))

    def _leave(self, error: Exception) -> None:
        """It has left its place in the lane: nobody has to be let in."""
        done = self.send.done
        assert isinstance(done, partial)
        done.args[2](error)

    def cancel(self) -> None:
        """Give the send up, unless it has ended."""
        self.cancelled = True
        if self.give_up is not None:
            self.give_up()
        elif self.waiter is not None and self.send.core.order.leave(self.waiter):
            self._leave(given_up(self.send.outgoing))


# --- the slow way ----------------------------------------------------------------------------------------


def _finish_in(
    nursery: trio.Nursery, sending: Sending, done: Done, rest: Callable[[], Awaitable[SendResult]]
) -> Cancel:
    """Run the rest of a send in a task; `done` hears of it also when the nursery has ended and takes no task."""
    scope = trio.CancelScope()
    try:
        nursery.start_soon(_finish_slowly, sending, done, rest, scope)
    except RuntimeError:  # what trio raises then
        done(given_up(sending.outgoing))
    return scope.cancel


def given_up(outgoing: Outgoing) -> ClientClosedError:
    """What to tell of a send that somebody has given up."""
    return ClientClosedError(
        f"a message for {outgoing.topic} was given up before it was acknowledged, or the producer was closed"
    )


@trio.lowlevel.enable_ki_protection
async def _finish_slowly(
    sending: Sending, done: Done, rest: Callable[[], Awaitable[SendResult]], scope: trio.CancelScope
) -> None:
    # The caller gets an outcome even when this task is cancelled: because the send was given up, or on closing.
    outcome: SendResult | BaseException = given_up(sending.outgoing)
    try:
        with scope:
            outcome = await rest()
    except BaseException as error:  # also what a selector or a hook of the user's raises
        if only_cancelled(error):
            raise
        outcome = error
    finally:
        done(outcome)
