"""Dedupe: wraps listeners so that they do not get duplicates of messages that were already consumed.

The listener's result for the messages that it got is extended to the duplicates among them. If listeners commit by
hand, consumed messages are remembered at once; the orderly service forgets those that are rolled back, or not committed
before their queue is given up. Java's client has no such wrapper.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy.consumer.listeners import A_COPY, is_async_listener
from rocketpy.results import ConsumeResult, RetryLater

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.consumed import Consumed, Stay
    from rocketpy.consumer.subscription import Listener

__all__ = ["Dedupe"]


class Dedupe:
    """Wraps listeners for one consumer.

    Args:
        config: says how listeners are called, and who commits.
        consumed: remembers consumed messages.

    Attributes:
        duplicates: copies kept from listeners since the consumer was opened; any thread may read it.
    """

    def __init__(self, config: PushConsumerConfig, consumed: Consumed) -> None:
        self._consumed = consumed
        self._batch = config.consume_message_batch_max_size > 1
        self._orderly = config.orderly
        self._copy = A_COPY if config.orderly and not config.auto_commit else None
        self.begin()

    def begin(self) -> None:
        """Count from 0: the consumer is opened, perhaps for the second time, perhaps after a fork."""
        self.duplicates = 0
        self._counting = threading.Lock()

    def wrap(self, listener: Listener) -> Listener:
        """Wrap a listener, plain or async, so that it gets no copies."""
        return self._wrap_async(listener) if is_async_listener(listener) else self._wrap_plain(listener)

    def _wrap_plain(self, listener: Listener) -> Listener:
        def without_copies(what: Any) -> object:
            wanted, places, stay = self._wanted(what)
            return self._judged(what, wanted, places, stay, listener(wanted)) if wanted else self._none_of(what)

        return without_copies

    def _wrap_async(self, listener: Listener) -> Listener:
        async def without_copies(what: Any) -> object:
            wanted, places, stay = self._wanted(what)
            return self._judged(what, wanted, places, stay, await listener(wanted)) if wanted else self._none_of(what)

        return without_copies

    def _wanted(self, what: Any) -> tuple[Any, list[int], Stay]:
        """What the listener gets, None for nothing; the indexes of these messages in the batch; the current stay."""
        if not self._batch:
            stay = self._consumed.stay(what)
            return (None if what in self._consumed else what), [], stay
        stay = self._consumed.stay(what[0])
        places = self._consumed.others(what)
        return [what[place] for place in places], places, stay

    def _none_of(self, what: Any) -> object:
        """The result of a call that left nothing for the listener."""
        self._count(len(what) if self._batch else 1)
        return self._copy

    def _count(self, duplicates: int) -> None:
        if duplicates:
            with self._counting:
                self.duplicates += duplicates

    def _judged(self, what: Any, wanted: Any, places: list[int], stay: Stay, outcome: object) -> object:
        """The listener's result in terms of everything that was passed in; remembers what is consumed."""
        done = self._done(wanted, outcome)
        if done is None:
            return outcome
        self._consumed.add(wanted[:done] if self._batch else [wanted], stay)
        if not self._batch:
            return outcome
        # Copies that stand before the first message that is not done count as done too.
        of_all = len(what) if done == len(wanted) else places[done]
        self._count(of_all - done)
        if isinstance(outcome, RetryLater):
            return attrs.evolve(outcome, done=of_all)
        return outcome if self._is_success(outcome) else of_all

    def _is_success(self, outcome: object) -> bool:
        if outcome is ConsumeResult.COMMIT:
            return self._orderly
        return outcome is None or outcome is True or outcome is ConsumeResult.SUCCESS

    def _done(self, wanted: Any, outcome: object) -> int | None:
        """How many of the messages that the listener got are consumed; None if its result does not say."""
        if self._is_success(outcome):
            return len(wanted) if self._batch else 1
        if not self._batch:
            return None
        done = outcome.done if isinstance(outcome, RetryLater) else outcome
        if isinstance(done, int) and not isinstance(done, bool) and 0 <= done <= len(wanted):
            return done
        return None
