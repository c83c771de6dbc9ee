"""What runs while a producer is open, and the order in which it begins and ends."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

import trio

from rocketpy.services import open_services

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from rocketpy.client.roles import ProducerRole
    from rocketpy.producer.outside import Outside

__all__ = ["Running"]


class Running:
    """The services of one producer, and its place among the roles of its client, which is open.

    Args:
        outside: the parts of the producer.
    """

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._client = outside.client
        self._core = outside.core
        self._config = outside.core.config

    async def open(self, stack: AsyncExitStack) -> trio.Nursery:
        """Start the services, which end with `stack`; returns the nursery in which the producer runs."""
        core, config = self._core, self._config
        core.open()
        if config.enable_msg_trace:
            from rocketpy.trace.sends import traced_sends  # few producers are traced

            core.trace_with(await stack.enter_async_context(traced_sends(self._client, config)))
        nursery = await stack.enter_async_context(open_services())
        self._outside.open(nursery)
        if config.send_latency_enable and config.start_detector_enable:
            from rocketpy.client.detector import Detector  # few producers have one

            nursery.start_soon(Detector(self._client, core.fault, config).run)
        return nursery

    def register(self, role: ProducerRole, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        """Register the producer with its client until `stack` ends, which waits first for the sends under way.

        Raises:
            ConfigError: the client has a producer of this group already.
        """
        self._client.register_producer(self._config.group, role)
        stack.push_async_callback(self._unregister)
        stack.push_async_exit(self._finish_sends)
        if self._config.on_statistics is not None:
            stack.push_async_callback(self._outside.figures.begin_reports(nursery))

    async def _finish_sends(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The first step of closing. It is on the stack, so that the other steps follow if this one is cancelled."""
        accumulator = self._outside.accumulator
        try:
            if accumulator is not None:
                accumulator.close()
            if error is None:
                await self._outside.sends.wait_none(self._config.group)
        finally:
            if accumulator is not None:
                accumulator.abandon()
            self._core.close()
            self._outside.requests.end()

    async def _unregister(self) -> None:
        with trio.move_on_after(self._config.close_timeout, shield=True):
            await self._client.unregister_producer(self._config.group)
