"""Blocking sends: the sending thread makes the first attempt over a data connection, and the portal makes the others.

No code of users runs here: a selector runs earlier, in the thread of its caller, and callbacks run elsewhere. A caller
that cannot use a data connection goes through the portal: either there is none, or the caller is a signal handler that
has interrupted code of that connection.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, cast

from rocketpy.client.sends.waiting import too_late_for
from rocketpy.errors import ClientClosedError, ConfigError, RocketMQError
from rocketpy.portal.waiting import acquire, wait
from rocketpy.producer.pending import PendingResume, PendingSend
from rocketpy.sync.links import attach_threads

if TYPE_CHECKING:
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.client.sends.key_order import Key
    from rocketpy.portal import Portal
    from rocketpy.producer import Producer
    from rocketpy.producer.terms import Terms
    from rocketpy.remoting.data.thread import ThreadConnection
    from rocketpy.results import SendResult

__all__ = ["DirectSends"]


class DirectSends:
    """The sends of one blocking producer.

    Args:
        producer: the trio producer behind the blocking one.

    Attributes:
        outside: that producer, as code outside of its loop uses it.
        core: what the attempts of its sends share.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.outside = producer.outside
        self.core = producer.outside.core
        self._home: Portal | None = None
        self._calls: dict[object, int] = {}
        """The thread of each send. The keys own the lanes of sharding keys."""
        self._closing: list[threading.Event] = []

    def open(self, home: Portal) -> None:
        """The producer is open: data connections are made from now on."""
        self._home = home
        self.outside = self._producer.outside  # a new one after a failed start
        self.core = self.outside.core
        attach_threads(self.outside.client, home)
        if self.outside.accumulator is not None:
            self.outside.accumulator.attach(home.post, has_threads=True)

    @property
    def is_ours(self) -> bool:
        """Whether this thread is one of ours, in which a hook or finalizer of a user runs, and which must not wait."""
        if self.home.is_here:
            return True
        return any(cast("ThreadConnection", each).is_mine for each in self.outside.client.data_links.all())

    @property
    def under_way(self) -> int:
        """How many threads are in a send."""
        return len(self._calls)

    @property
    def home(self) -> Portal:
        """The portal that makes the other attempts."""
        if self._home is None:
            raise AssertionError("an open producer has a home")
        return self._home

    # --- a caller that waits ---------------------------------------------------------------------------

    def send(self, outgoing: Outgoing, terms: Terms) -> SendResult:
        """Send and wait for the answer.

        Raises:
            RocketMQError: the message was not acknowledged.
            ConfigError: this thread may not wait.
        """
        self.home.check_not_here()
        call = object()
        self._calls[call] = threading.get_ident()
        try:
            if terms.key is None:
                return self._send(outgoing, terms)
            try:
                self._wait_for_key(terms.key, terms, call)
                return self._send(outgoing, terms)
            finally:
                self.core.order.release(terms.key, call)
        finally:
            del self._calls[call]
            for ended in self._closing:
                ended.set()

    def _send(self, outgoing: Outgoing, terms: Terms) -> SendResult:
        core = self.core
        started = core.clock()
        attempt = core.begin(outgoing, terms.choice, started, self.nowait)
        if attempt is None:
            return self.home.wait(PendingSend(self.outside, outgoing, terms))
        until = core.until(
            core.kind(outgoing, terms.choice), started, terms.deadline, terms.tries, others=attempt.others
        )
        try:
            return core.finish(attempt, attempt.connection.exchange(attempt.opaque, attempt.frame, until))
        except RocketMQError as error:
            return self.home.wait(PendingResume(self.outside, attempt, error, terms))

    def nowait(self, address: str) -> ThreadConnection | None:
        """The data connection to an address, if there is one that this thread may use now."""
        found = cast("ThreadConnection | None", self.outside.client.data_links.nowait(address))
        return None if found is None or found.is_mine else found

    def _wait_for_key(self, key: Key, terms: Terms, call: object) -> None:
        """Wait for the lane of a sharding key, which is released if this raises."""
        order = self.core.order
        if order.try_take(key, call):
            return
        if self._calls.get(order.owner(key)) == threading.get_ident():
            raise ConfigError(
                f"this send with the sharding key {key[1]!r:.100} has interrupted another one with the same key in "
                "its own thread, from a signal handler or a finalizer, and would wait for itself: use send_soon there, "
                "or hand the message to another thread"
            )
        came = threading.Lock()
        came.acquire()
        if order.take(key, came.release, call) is None:
            return
        if not acquire(came, monotonic() + max(0.0, terms.deadline - self.core.clock())):
            raise too_late_for(key, terms.timeout)

    # --- a thread that waits for a future ---------------------------------------------------------------

    def before_wait(self, timeout: float | None) -> None:
        """Write what has gathered, because this thread is about to wait for it.

        Args:
            timeout: seconds that it will wait; None if it has no limit.

        Raises:
            ConfigError: this is the thread in which the outcome would be made known.
        """
        if self.home.is_here and (timeout is None or timeout > 0):
            error = ConfigError(
                "waiting for the outcome of a message in the thread that takes the answers would never end: wait in a "
                "thread of yours, or use add_done_callback"
            )
            error.nothing_sent = False
            raise error
        self.flush()

    # --- the end ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the collected frames, because a thread is about to wait for them or the process is ending."""
        if self.outside.accumulator is not None:
            with suppress(ClientClosedError):  # the process is ending, and with the portal the messages have ended
                self.outside.accumulator.hurry()
        self.home.nudge()
        for connection in self.outside.client.data_links.all():
            if not cast("ThreadConnection", connection).is_mine:
                cast("ThreadConnection", connection).flush()

    def wait_calls(self, timeout: float | None) -> int:
        """Wait up to `timeout` seconds until no other thread is in a send. Returns how many still are.

        This thread does not count: a signal handler that closes the producer may have interrupted its send.
        """
        end = None if timeout is None else self.core.clock() + timeout
        ended = threading.Event()
        self._closing.append(ended)
        try:
            while (left := self._other_calls()) and (end is None or self.core.clock() < end):
                wait(ended, None if end is None else end - self.core.clock())
                ended.clear()
        finally:
            self._closing.remove(ended)
        return left

    def _other_calls(self) -> int:
        me = threading.get_ident()
        return sum(thread != me for thread in list(self._calls.values()))
