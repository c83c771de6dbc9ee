"""What is wrapped around a listener: the hooks before and after it, traces, and the detection of duplicates.

The wrapped listener is a function of the same kind, plain or async, so whatever calls listeners need not know of it.
A listener is wrapped only if a setting asks for it, or if it takes lists: then it and each hook get their own. Plays
the part of ConsumeMessageHook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rocketpy.consumer.calling.dedupe import Dedupe
from rocketpy.consumer.calling.own_lists import with_own_list
from rocketpy.consumer.consumed import Consumed
from rocketpy.consumer.listeners import is_async_listener
from rocketpy.errors import ConfigError
from rocketpy.logs import Seldom, get_logger

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.calling.traced import Traced
    from rocketpy.consumer.subscription import Listener
    from rocketpy.trace.consumes import ConsumeTracer

__all__ = ["Around"]

logger = get_logger(__name__)

_FAILURES = (Exception, SystemExit)
"""Exceptions that count as failures of a listener. Ctrl-C, and a cancellation when the consumer closes, do not."""


class Around:
    """Wraps listeners for one consumer.

    Args:
        config: has the hooks, and says whether to look for duplicates.

    Attributes:
        consumed: the memory of consumed messages; empty unless `dedupe` is set.
    """

    def __init__(self, config: PushConsumerConfig) -> None:
        self._lists = config.consume_message_batch_max_size > 1
        self._before, self._after = config.before_consume, config.after_consume
        if self._lists:
            self._before = None if self._before is None else with_own_list(self._before)
            self._after = None if self._after is None else with_own_list(self._after)
        self._dedupes = config.dedupe is not None
        self.consumed = Consumed(config.dedupe, config.dedupe_size)
        self._dedupe = Dedupe(config, self.consumed)
        self._traced: Traced | None = None
        if config.enable_msg_trace:
            from rocketpy.consumer.calling.traced import Traced  # few consumers are traced

            self._traced = Traced()
        self._seldom = Seldom(logger)

    @property
    def duplicates(self) -> int:
        """Copies kept from listeners since the consumer was opened. Thread-safe."""
        return self._dedupe.duplicates

    def begin(self, tracer: ConsumeTracer | None) -> None:
        """Remember nothing and count from 0: the consumer is opened, perhaps again, perhaps after a fork.

        Args:
            tracer: makes the records of traced calls; None if calls are not traced.
        """
        self.consumed.clear()
        self._dedupe.begin()
        if self._traced is not None and tracer is not None:
            self._traced.begin(tracer)

    def wrap(self, listener: Listener) -> Listener:
        """The listener with everything around it; the listener itself if it takes no lists and no setting asks.

        Raises:
            ConfigError: a hook has to be awaited, and the listener is a plain function.
        """
        hooked = self.wrap_directly(listener)
        if self._traced is not None:
            hooked = self._traced.wrap(hooked)
        return self._dedupe.wrap(hooked) if self._dedupes else hooked

    def wrap_directly(self, listener: Listener) -> Listener:
        """The listener with the hooks only, for messages that an administrator wants consumed directly, copies or not.

        Raises:
            ConfigError: a hook has to be awaited, and the listener is a plain function.
        """
        if self._lists:
            listener = with_own_list(listener)
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
            try:
                outcome = listener(what)
            except _FAILURES as error:
                if self._after is not None:
                    with self._logged():
                        self._after(what, error)
                raise
            if self._after is not None:
                self._after(what, outcome)
            return outcome

        return around

    def _wrap_async(self, listener: Listener) -> Listener:
        async def around(what: Any) -> object:
            await _done(self._before, what)
            try:
                outcome = await listener(what)
            except _FAILURES as error:
                with self._logged():
                    await _done(self._after, what, error)
                raise
            await _done(self._after, what, outcome)
            return outcome

        return around

    @contextmanager
    def _logged(self) -> Iterator[None]:
        """Log an exception of `after_consume` after the listener has failed; the listener's exception counts."""
        try:
            yield
        except _FAILURES as error:
            self._seldom.warning(
                type(error).__name__, "after_consume failed, after the listener had failed too", exc_info=error
            )


async def _done(hook: Callable[..., Any] | None, *arguments: object) -> None:
    if hook is not None:
        answer = hook(*arguments)
        if is_async_listener(hook):
            await answer
