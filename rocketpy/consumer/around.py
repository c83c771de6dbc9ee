"""What stands around a listener: functions before and after it, and the memory of what was consumed already.

It is one function in the place of the listener, of the same kind, so that whatever calls listeners need not know of it;
and it is there only where a setting wants it. Plays the part of ConsumeMessageHook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rocketpy.consumer.consumed import Consumed
from rocketpy.consumer.dedupe import Dedupe
from rocketpy.consumer.listeners import is_async_listener
from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.subscription import Listener

__all__ = ["Around"]


class Around:
    """Wraps listeners for one consumer.

    Args:
        config: says what is wanted.

    Attributes:
        consumed: what is remembered of what was consumed; nothing unless the config wants it.
    """

    def __init__(self, config: PushConsumerConfig) -> None:
        self._before = config.before_consume
        self._after = config.after_consume
        self._dedupes = config.dedupe is not None
        self.consumed = Consumed(config.dedupe, config.dedupe_size)
        self._dedupe = Dedupe(config, self.consumed)

    @property
    def duplicates(self) -> int:
        """Copies that no listener got since the consumer was opened. For any thread."""
        return self._dedupe.duplicates

    def begin(self) -> None:
        """Nothing is consumed yet: the consumer is opened, perhaps for the second time, perhaps after a fork."""
        self.consumed.clear()
        self._dedupe.begin()

    def wrap(self, listener: Listener) -> Listener:
        """The listener with everything around it; the listener itself where nothing is wanted.

        Raises:
            ConfigError: a hook has to be awaited, and the listener is a plain function.
        """
        hooked = self.wrap_directly(listener)
        return self._dedupe.wrap(hooked) if self._dedupes else hooked

    def wrap_directly(self, listener: Listener) -> Listener:
        """The same for calls that somebody asks for: who wants a message consumed means it, copy or not.

        Raises:
            ConfigError: a hook has to be awaited, and the listener is a plain function.
        """
        if self._before is None and self._after is None:
            return listener
        if is_async_listener(listener):
            return self._wrap_async(listener)
        for name, hook in (("before_consume", self._before), ("after_consume", self._after)):
            if hook is not None and is_async_listener(hook):
                raise ConfigError(f"{name} is async and the listener is plain: make both plain, or both async")
        return self._wrap_plain(listener)

    def _wrap_plain(self, listener: Listener) -> Listener:
        def around(what: Any) -> object:
            if self._before is not None:
                self._before(what)
            outcome = listener(what)
            if self._after is not None:
                self._after(what, outcome)
            return outcome

        return around

    def _wrap_async(self, listener: Listener) -> Listener:
        async def around(what: Any) -> object:
            await _done(self._before, what)
            outcome = await listener(what)
            await _done(self._after, what, outcome)
            return outcome

        return around


async def _done(hook: Callable[..., Any] | None, *arguments: object) -> None:
    if hook is not None:
        answer = hook(*arguments)
        if is_async_listener(hook):
            await answer
