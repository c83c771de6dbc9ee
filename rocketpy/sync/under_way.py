"""What a blocking producer has under way, which is waited for when it closes and when the process ends."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from rocketpy.producer.closing import PATIENCE, say_waiting

if TYPE_CHECKING:
    from rocketpy.config import ProducerConfig
    from rocketpy.sync.direct import DirectSends
    from rocketpy.sync.future import Callbacks
    from rocketpy.sync.gate import Gates

__all__ = ["UnderWay"]


class UnderWay:
    """The messages of one producer that are on their way, and the callbacks that are due.

    Args:
        config: that of the producer.
        gates: that of `send_soon`, then that of `request_soon`.
        direct: the sends for which threads wait.
        callbacks: those of its futures.
    """

    def __init__(self, config: ProducerConfig, gates: Gates, direct: DirectSends, callbacks: Callbacks) -> None:
        self._config = config
        self._gates = gates
        self._direct = direct
        self._callbacks = callbacks

    @property
    def exit_timeout(self) -> float:
        """Seconds to wait at the end of the process."""
        config = self._config
        return config.send_timeout if config.exit_timeout is None else config.exit_timeout

    def wait_idle(self, timeout: float | None) -> int:
        """Wait up to `timeout` seconds until nothing is under way. Returns how many messages with futures still are.

        Also waits for messages that callbacks send meanwhile, but not for one that this thread is handing over. In that
        case the caller is a signal handler or a finalizer, and the message is not sent until it returns.
        """
        until = None if timeout is None else monotonic() + timeout
        spared = self._gates.begun_by(threading.get_ident())
        while True:
            self._direct.flush()
            submitted = self._callbacks.submitted
            left = self._gates.wait_empty(_left(until), spared)
            if left or (until is not None and monotonic() >= until):
                return left
            self._direct.wait_calls(_left(until))
            seconds = self.exit_timeout if until is None else max(0.0, until - monotonic())
            have_run = self._callbacks.wait_idle(seconds)
            # A callback may have sent a message that was answered meanwhile: then another callback is due.
            if not self._gates.more_than(spared) and (not have_run or self._callbacks.submitted == submitted):
                return 0

    def finish(self, timeout: float | None) -> None:
        """Wait as `wait_idle` does, as the producer closes, and log after a second what it is waiting for."""
        began = monotonic()
        first = PATIENCE if timeout is None else min(PATIENCE, timeout)
        self.wait_idle(first)
        left = None if timeout is None else began + timeout - monotonic()
        if monotonic() - began >= first and (left is None or left > 0):
            messages = len(self._gates) + self._direct.wait_calls(0)
            say_waiting(self._config.group, messages, left, callbacks=len(self._callbacks))
        self.wait_idle(left)

    @property
    def due(self) -> int:
        """Callbacks that have not run, and messages under way."""
        return len(self._gates) + len(self._callbacks)

    @property
    def requests(self) -> int:
        """How many requests are under way."""
        return sum(self._gates.counts()[1:])

    def stop(self) -> int:
        """Take no more messages, as the process ends. Returns how many are under way, including requests."""
        self._gates.close()
        return len(self._gates)

    def __str__(self) -> str:
        """The producer, as errors and logs name it."""
        return f"producer {self._config.group}"


def _left(until: float | None) -> float | None:
    return None if until is None else until - monotonic()
