"""One `send_soon`, from the call to the completion of its future.

It is also the slot of its first attempt on a data connection. It is a single object because there may be very many of
them.
Its methods may be called by any thread, never wait, and run no code of users.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from rocketpy.client.sends.waiting import too_late_for
from rocketpy.errors import ClientClosedError, RocketMQError

if TYPE_CHECKING:
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.client.sends.key_order import KeyWaiter
    from rocketpy.client.sends.sending import Attempt
    from rocketpy.producer.terms import Terms
    from rocketpy.remoting.data.waiting import Answer
    from rocketpy.results import SendResult
    from rocketpy.sync.direct import DirectSends
    from rocketpy.sync.future import SendFuture
    from rocketpy.sync.gate import Gate

__all__ = ["Soon"]


class Soon:
    """A message in flight.

    Args:
        direct: sends it.
        gate: the gate that counts it.
        outgoing: the encoded message.
        terms: the terms of the send.
        future: gets the outcome.

    Attributes:
        deadline: the deadline of the current attempt.
        beginner: the ident of the thread that is handing it over, 0 afterwards. A signal handler or a finalizer that
            interrupts that thread must not wait for the message.
    """

    __slots__ = ("_attempt", "_direct", "_future", "_gate", "_has_key", "_outgoing", "_terms", "beginner", "deadline")

    def __init__(
        self, direct: DirectSends, gate: Gate, outgoing: Outgoing, terms: Terms, future: SendFuture[SendResult]
    ) -> None:
        self._direct = direct
        self._gate = gate
        self._outgoing = outgoing
        self._terms = terms
        self._future: SendFuture[SendResult] | None = future
        self._attempt: Attempt[Any] | None = None
        self._has_key = False
        self.deadline = 0.0
        self.beginner = threading.get_ident()

    def begin(self) -> None:
        """Send it, or wait for the turn of its sharding key."""
        key = self._terms.key
        try:
            if key is not None:
                waiter = self._direct.core.order.take(key, self._came, self)
                if waiter is not None:
                    self._in_portal(self._watch, waiter)
                    self.beginner = 0
                    return
                self._has_key = True
            self._start()
            self.beginner = 0
        except BaseException:  # Ctrl-C, too, may strike between any two steps
            self._withdraw()
            raise

    def _withdraw(self) -> None:
        """Forget it after an exception of a hook or a signal handler, which goes to the caller.

        Messages that follow with the same key are not to blame.
        """
        if self._future is not None:  # it has not ended
            self._future = None
            attempt, self._attempt = self._attempt, None
            if attempt is not None:
                attempt.connection.give_up(attempt.opaque)
        self._has_key = False
        if self._terms.key is not None:
            self._direct.core.order.release(self._terms.key, self)

    def _start(self) -> None:
        direct, terms = self._direct, self._terms
        core = direct.core
        started = core.clock()
        try:
            attempt = self._attempt = core.begin(self._outgoing, terms.choice, started, direct.nowait)
            if attempt is None:
                self._in_portal(direct.outside.start, self._outgoing, terms, self.done)
                return
            kind = core.kind(self._outgoing, terms.choice)
            self.deadline = core.until(kind, started, terms.deadline, terms.tries, others=attempt.others)
            attempt.connection.start_request(attempt.opaque, attempt.frame, self)
        except RocketMQError as error:
            self._failed(error)

    def complete(self, result: Answer | RocketMQError) -> None:
        """Take the answer to the first attempt, or the error."""
        try:
            if isinstance(result, RocketMQError):
                raise result
            assert self._attempt is not None
            outcome = self._direct.core.finish(self._attempt, result)
        except RocketMQError as error:
            self._failed(error)
        except BaseException as error:  # noqa: BLE001 - a hook's or a bug, which belongs to this message and no other
            self.done(error)
        else:
            self.done(outcome)

    def _failed(self, error: RocketMQError) -> None:
        if self._attempt is None:
            self.done(error)
        else:
            self._in_portal(self._direct.outside.resume, self._attempt, error, self._terms, self.done)

    def done(self, outcome: SendResult | BaseException) -> None:
        """Take the outcome."""
        if self._future is None:
            return
        try:
            self._leave(outcome)
        finally:  # also after Ctrl-C, or later messages with the same key would wait forever
            self._attempt = None
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the next message of the sharding key go, if this one has the turn. Idempotent."""
        has_key, self._has_key = self._has_key, False
        if has_key and self._terms.key is not None:
            self._direct.core.order.release(self._terms.key, self)

    def _leave(self, outcome: SendResult | BaseException) -> None:
        future = self._future
        if future is not None:
            future.complete(outcome)
            self._future = None  # the traceback of an error refers to this object: avoid a reference cycle
        self._gate.leave(self)  # last, so that a thread that waits for an empty gate finds the callbacks due

    # --- the turn of a sharding key ----------------------------------------------------------------------

    def _watch(self, waiter: KeyWaiter) -> None:
        """In the portal: give up if the turn does not come before the deadline."""
        if waiter.waits:
            self._direct.core.waits.watch(waiter, self._terms.deadline, self._too_late)

    def _came(self) -> None:
        terms = self._terms
        self._has_key = True
        if self._direct.core.clock() < terms.deadline:
            try:
                self._start()
            except BaseException as error:  # noqa: BLE001 - a hook's, and this is somebody else's thread
                self.done(error)
        elif terms.key is not None:
            self.done(too_late_for(terms.key, terms.timeout))

    def _too_late(self) -> None:
        """The turn did not come in time. The message has left the line, so there is no turn to pass on."""
        if self._terms.key is not None:
            self._leave(too_late_for(self._terms.key, self._terms.timeout))

    # --- the portal --------------------------------------------------------------------------------------

    def _in_portal(self, function: Any, *args: Any) -> None:
        """Have a function called in the portal. If it raises, that is the outcome of the message."""

        def call() -> None:
            try:
                function(*args)
            except BaseException as error:  # noqa: BLE001 - what a hook raises belongs to the sender
                self.done(error)

        try:
            self._direct.home.post(call)
        except ClientClosedError as error:
            self.done(error)
