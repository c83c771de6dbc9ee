"""Sends of an event loop: the first attempt over a data connection in that loop, the rest in the portal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from rocketpy.aio.connection import LoopConnection
from rocketpy.client.peer_requests import PeerRequests
from rocketpy.client.sends.waiting import too_late_for
from rocketpy.errors import RocketMQError
from rocketpy.logs import get_logger
from rocketpy.producer.pending import PendingResume, PendingSend

if TYPE_CHECKING:
    import socket

    from rocketpy.aio.bridge import Bridge
    from rocketpy.client.data_links import DataConnection
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.producer import Producer
    from rocketpy.producer.terms import Terms
    from rocketpy.results import SendResult

__all__ = ["DirectSends"]

logger = get_logger(__name__)


class DirectSends:
    """The sends of one asyncio producer.

    Args:
        producer: the one behind it.
        bridge: to the loop that uses it.

    Attributes:
        outside: the interface of the producer for code outside of its loop.
        under_way: sends that have begun and not ended.
    """

    def __init__(self, producer: Producer, bridge: Bridge) -> None:
        self._producer = producer
        self._bridge = bridge
        self.outside = producer.outside
        self._tasks: set[asyncio.Task[None]] = set()
        self.under_way = 0
        self._waiting: list[asyncio.Future[None]] = []

    def open(self) -> None:
        """The producer is open: data connections are made from now on."""
        self.outside = self._producer.outside  # another one after a start that failed
        self.outside.client.data_links.attach(self._make, self._bridge.portal.post)
        if self.outside.accumulator is not None:
            self.outside.accumulator.attach(self._bridge.portal.post)

    # --- making connections ----------------------------------------------------------------------------

    def _make(self, connection: socket.socket, address: str, stands: Callable[[DataConnection], object]) -> None:
        """In the portal: have the loop make a connection of a socket."""
        if not self._bridge.inbox.deliver(lambda: self._make_here(connection, address, stands)):
            connection.close()

    def _make_here(self, connection: socket.socket, address: str, stands: Callable[[DataConnection], object]) -> None:
        task = self._bridge.loop.create_task(self._connect(connection, address, stands))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before its first step has closed nothing.
        task.add_done_callback(lambda ended: connection.close() if ended.cancelled() else None)

    async def wait_connected(self) -> None:
        """Wait until no connection is being made: of a socket that is connected, that takes a turn or two."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _connect(self, link: socket.socket, address: str, stands: Callable[[DataConnection], object]) -> None:
        bridge, pool, handler = self._bridge, self.outside.client.pool, self.outside.client.callbacks

        def answer(frame: bytes) -> None:
            bridge.inbox.deliver(lambda: made.send_answer(frame))

        made = LoopConnection(
            bridge.loop,
            address,
            limits=pool.limits,
            serialize_type=pool.serialize_type,
            hooks=pool.hooks,
            clock=self.outside.core.clock,
            on_requests=PeerRequests(address, handler, post=bridge.portal.post, deliver=answer).take,
        )
        try:
            link.setblocking(False)
            await bridge.loop.create_connection(lambda: made, sock=link)
        except (OSError, RuntimeError) as exc:
            link.close()
            logger.debug("no data connection to %s: %s", address, exc)
        except BaseException:
            link.close()
            raise
        else:
            stands(made)

    # --- sending ---------------------------------------------------------------------------------------

    async def send_in_turn(self, outgoing: Outgoing, terms: Terms) -> SendResult:
        """Send a message that has a sharding key, and wait for the answer. Raises as `send`."""
        assert terms.key is not None
        if not self.outside.core.order.try_take(terms.key):
            self.under_way += 1
            try:
                await self._wait_for_key(terms)
            except BaseException:
                self._one_less()
                raise
            self.under_way -= 1  # `send` counts it from here on
        try:
            return await self.send(outgoing, terms)
        finally:
            self.outside.core.order.pass_on(terms.key)

    async def send(self, outgoing: Outgoing, terms: Terms) -> SendResult:
        """Send and wait for the answer.

        Raises:
            RocketMQError: it was not acknowledged.
        """
        self.under_way += 1
        try:
            core = self.outside.core
            started = core.clock()
            attempt = core.begin(outgoing, terms.choice, started, self.nowait)
            if attempt is None:
                return await self._bridge.run(PendingSend(self.outside, outgoing, terms))
            kind = core.kind(outgoing, terms.choice)
            until = core.until(kind, started, terms.deadline, terms.tries, others=attempt.others)
            connection = attempt.connection
            try:
                future = connection.start_request(attempt.opaque, attempt.frame, until)
                try:
                    answer = await future
                except BaseException:
                    connection.give_up(attempt.opaque)
                    raise
                if isinstance(answer, RocketMQError):
                    raise answer
                return core.finish(attempt, answer)
            except RocketMQError as error:
                return await self._bridge.run(PendingResume(self.outside, attempt, error, terms))
        finally:
            self._one_less()

    def _one_less(self) -> None:
        self.under_way -= 1
        if not self.under_way:
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait_idle(self) -> None:
        """Wait until no send is under way."""
        while self.under_way:
            waiter: asyncio.Future[None] = self._bridge.loop.create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            finally:
                self._waiting.remove(waiter)

    def nowait(self, address: str) -> LoopConnection | None:
        """The data connection to an address, if there is one."""
        return cast("LoopConnection | None", self.outside.client.data_links.nowait(address))

    async def _wait_for_key(self, terms: Terms) -> None:
        """Wait for the turn of a sharding key; the lane is the caller's then."""
        key, order, loop = terms.key, self.outside.core.order, self._bridge.loop
        assert key is not None
        came: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not came.done():
                came.set_result(None)

        waiter = order.take(key, lambda: self._bridge.inbox.deliver(wake))
        if waiter is None:
            return
        alarm = loop.call_later(max(0.0, terms.deadline - self.outside.core.clock()), wake)
        try:
            await came
        except BaseException:
            if not order.leave(waiter):
                order.pass_on(key)
            raise
        finally:
            alarm.cancel()
        if order.leave(waiter):
            raise too_late_for(key, terms.timeout)
