"""What is wrapped around a listener: the hooks before and after it, and the detection of duplicates.

The wrapped listener is a function of the same kind, plain or async, so whatever calls listeners need not know of it.
A listener is wrapped only if a setting asks for it. Plays the part of ConsumeMessageHook.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy.consumer.listeners import is_async_listener
from rocketpy.errors import ConfigError
from rocketpy.results import ConsumeResult, RetryLater

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageExt

__all__ = ["Around", "Consumed"]


class Consumed:
    """The ids of the messages that were consumed last. Any thread may use it: each step is one operation of a dict.

    Args:
        by: "unique_id" or "key".
        size: how many are remembered.
    """

    def __init__(self, by: str, size: int) -> None:
        self._by_key = by == "key"
        self._size = size
        self._seen: dict[Hashable, None] = {}

    def _id(self, message: MessageExt) -> Hashable | None:
        """What two copies of a message have in common; None if the message has no such id."""
        found = message.keys if self._by_key else message.message_id
        return (message.topic, found) if found else None

    def __contains__(self, message: MessageExt) -> bool:
        """Whether a copy of a message was consumed."""
        return self._id(message) in self._seen

    def add(self, messages: Sequence[MessageExt]) -> None:
        """Remember messages as consumed, and forget the oldest ones if there are too many."""
        seen = self._seen
        for message in messages:
            found = self._id(message)
            if found is not None:
                seen.pop(found, None)
                seen[found] = None
        while len(seen) > self._size:
            try:
                seen.pop(next(iter(seen)), None)
            except (RuntimeError, StopIteration):
                return  # another thread is forgetting old ones too

    def others(self, messages: Sequence[MessageExt]) -> list[int]:
        """The indexes of the messages to consume: each message once, and no copies of consumed ones."""
        found: list[int] = []
        here: set[Hashable] = set()
        for place, message in enumerate(messages):
            its = self._id(message)
            if its is None or (its not in self._seen and its not in here):
                found.append(place)
                here.add(its)
        return found


class Around:
    """Wraps listeners for one consumer.

    Args:
        config: has the hooks, and says whether to look for duplicates.

    Attributes:
        duplicates: copies kept from listeners since the consumer was opened; any thread may read it.
    """

    def __init__(self, config: PushConsumerConfig) -> None:
        self._before = config.before_consume
        self._after = config.after_consume
        self._batch = config.consume_message_batch_max_size > 1
        self._consumed = Consumed(config.dedupe, config.dedupe_size) if config.dedupe is not None else None
        self.begin()

    def begin(self) -> None:
        """Count from 0: the consumer is opened, perhaps for the second time, perhaps after a fork."""
        self.duplicates = 0
        self._counting = threading.Lock()

    def wrap(self, listener: Listener) -> Listener:
        """The listener with everything around it; the listener itself if no setting asks for anything.

        Raises:
            ConfigError: a hook has to be awaited, and the listener is a plain function.
        """
        if self._before is None and self._after is None and self._consumed is None:
            return listener
        if is_async_listener(listener):
            return self._wrap_async(listener)
        for name, hook in (("before_consume", self._before), ("after_consume", self._after)):
            if hook is not None and is_async_listener(hook):
                raise ConfigError(f"{name} is async and the listener is plain: make both plain, or both async")
        return self._wrap_plain(listener)

    def _wrap_plain(self, listener: Listener) -> Listener:
        def around(what: Any) -> object:
            wanted, places = self._wanted(what)
            if not wanted:
                self._count(len(what) if self._batch else 1)
                return None
            if self._before is not None:
                self._before(wanted)
            outcome = listener(wanted)
            if self._after is not None:
                self._after(wanted, outcome)
            return self._judged(what, wanted, places, outcome)

        return around

    def _wrap_async(self, listener: Listener) -> Listener:
        async def around(what: Any) -> object:
            wanted, places = self._wanted(what)
            if not wanted:
                self._count(len(what) if self._batch else 1)
                return None
            await _done(self._before, wanted)
            outcome = await listener(wanted)
            await _done(self._after, wanted, outcome)
            return self._judged(what, wanted, places, outcome)

        return around

    def _wanted(self, what: Any) -> tuple[Any, list[int]]:
        """What the listener gets, None for nothing, and the indexes of these messages in the batch."""
        if self._consumed is None:
            return what, []
        if not self._batch:
            return (None if what in self._consumed else what), []
        places = self._consumed.others(what)
        return [what[place] for place in places], places

    def _count(self, duplicates: int) -> None:
        if duplicates:
            with self._counting:
                self.duplicates += duplicates

    def _judged(self, what: Any, wanted: Any, places: list[int], outcome: object) -> object:
        """The listener's result in terms of everything that was passed in; remembers what is consumed."""
        if self._consumed is None:
            return outcome
        done = self._done(wanted, outcome)
        if done is None:
            return outcome
        self._consumed.add(wanted[:done] if self._batch else [wanted])
        if not self._batch:
            return outcome
        # Copies that stand before the first message that is not done count as done too.
        of_all = len(what) if done == len(wanted) else places[done]
        self._count(of_all - done)
        if isinstance(outcome, RetryLater):
            return attrs.evolve(outcome, done=of_all)
        return outcome if outcome is None or outcome is ConsumeResult.SUCCESS else of_all

    def _done(self, wanted: Any, outcome: object) -> int | None:
        """How many of the messages that the listener got are consumed; None if its result does not say."""
        if outcome is None or outcome is ConsumeResult.SUCCESS:
            return len(wanted) if self._batch else 1
        if not self._batch:
            return None
        done = outcome.done if isinstance(outcome, RetryLater) else outcome
        if isinstance(done, int) and not isinstance(done, bool) and 0 <= done <= len(wanted):
            return done
        return None


async def _done(hook: Callable[..., Any] | None, *arguments: object) -> None:
    if hook is not None:
        answer = hook(*arguments)
        if is_async_listener(hook):
            await answer
