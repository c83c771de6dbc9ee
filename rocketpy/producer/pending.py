"""A send that somebody outside the portal waits for: what the blocking and the asyncio producer have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketpy.portal import Pending, Portal
from rocketpy.results import SendResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.client.outgoing import Outgoing
    from rocketpy.producer.producer import Producer

__all__ = ["PendingSend"]


class PendingSend(Pending[SendResult]):
    """One send. It has no task in the portal, unless its first try fails.

    Args:
        producer: sends it.
        outgoing: what is sent.
        options: queue, selector, its argument and the timeout, as `Producer.send` takes them.
    """

    __slots__ = ("_give_up", "_options", "_outgoing", "_producer")

    def __init__(self, producer: Producer, outgoing: Outgoing, *options: Any) -> None:
        super().__init__()
        self._producer = producer
        self._outgoing = outgoing
        self._options = options
        self._give_up: Callable[[], None] | None = None

    def begin(self, home: Portal) -> None:
        """Send it."""
        producer = self._producer
        queue, selector, arg, timeout = self._options
        try:
            give_up = producer.start_send(
                self._outgoing,
                self._done,
                queue=queue,
                selector=selector,
                arg=arg,
                timeout=timeout,
                retries=producer.config.retry_times_when_send_failed,
            )
        except Exception as error:  # noqa: BLE001 - whatever a selector raises belongs to whoever sends
            self.end(None, error)
        else:
            self._give_up = None if self.ended else give_up

    def cancel(self) -> None:
        """Give it up."""
        if self._give_up is not None:
            self._give_up()

    def _done(self, outcome: SendResult | Exception) -> None:
        self._give_up = None  # it refers to us: nothing of a send that has ended shall wait for the collector
        if isinstance(outcome, Exception):
            self.end(None, outcome)
        else:
            self.end(outcome)
