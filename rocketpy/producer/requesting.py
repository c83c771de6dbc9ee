"""Requests of a producer: it sends a message, and waits for a consumer's reply.

The broker that gets the reply pushes it to the client that made the request, which it knows from its heartbeats. So
every broker of the topic must have a heartbeat of the client before the request is sent. Plays the part of request in
DefaultMQProducerImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.client.preparing.outgoing import Outgoing
from rocketpy.client.preparing.sound import explaining
from rocketpy.client.requests import new_correlation_id
from rocketpy.client.sends import send_drivers
from rocketpy.errors import ClientClosedError, ReplyTimeoutError, RocketMQError
from rocketpy.message.reply import as_request
from rocketpy.producer.routes import ensure_route
from rocketpy.producer.timeouts import checked_timeout
from rocketpy.wire.bodies.route import MASTER_ID

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.client.lifecycle import Lifecycle
    from rocketpy.client.preparing.outgoing import Preparer
    from rocketpy.client.requests import PendingRequest
    from rocketpy.client.sends.sending import Choice, SendCore
    from rocketpy.message import Message, MessageExt
    from rocketpy.producer.send_count import SendCount

__all__ = ["PreparedRequest", "Requester"]

_LEAST = 0.001


@attrs.frozen(eq=False)
class PreparedRequest:
    """A request that is ready to be sent."""

    outgoing: Outgoing
    correlation_id: str
    deadline: float
    """For sending and for the reply, on the clock of the client."""
    timeout: float
    """The timeout in seconds from which the deadline was computed."""


class Requester:
    """Makes the requests of one producer.

    Args:
        core: what the attempts of its sends share.
        preparer: checks and encodes messages.
        lifecycle: the lifecycle of the producer.
        sends: counts the sends that are under way; a request is one until it has its reply.
    """

    def __init__(self, core: SendCore, preparer: Preparer, lifecycle: Lifecycle, sends: SendCount) -> None:
        self._client = core.client
        self._core = core
        self._preparer = preparer
        self._lifecycle = lifecycle
        self._sends = sends

    def prepare(self, message: Message, timeout: float | timedelta | None) -> PreparedRequest:
        """Check and encode a request, from any thread; for `ask`.

        Raises:
            ConfigError: it cannot be sent as it is.
            SerializationError: its value cannot be written.
            ClientClosedError: the producer is not open.
        """
        self._lifecycle.check_open()
        seconds = self._core.config.send_timeout if timeout is None else checked_timeout(timeout)
        correlation_id = new_correlation_id()
        with explaining([message]):
            made = as_request(
                self._preparer.filled(message),
                correlation_id=correlation_id,
                client_id=self._client.client_id,
                ttl=max(1, round(seconds * 1000)),
            )
        return PreparedRequest(self._preparer.one(made), correlation_id, self._core.clock() + seconds, seconds)

    async def ask(self, asked: PreparedRequest, choice: Choice | None, retries: int) -> MessageExt:
        """Send a prepared request and wait for its reply, in the loop of the producer. Raises as `Producer.request`."""
        if not self._core.is_open:  # while it closes, requests that were accepted before still run
            self._lifecycle.check_open()
        requests = self._client.requests
        pending = requests.open(asked.correlation_id, self)
        self._sends.begin()
        try:
            return await self._ask(asked, choice, 1 + retries, pending)
        finally:
            requests.close(pending)
            self._sends.end()

    def end(self) -> None:
        """The producer closes: end the requests that still wait for their replies."""
        self._client.requests.end(self)

    async def _ask(
        self, asked: PreparedRequest, choice: Choice | None, tries: int, pending: PendingRequest
    ) -> MessageExt:
        topic, clock = asked.outgoing.topic, self._core.clock
        try:
            with pending.sending:
                await self._be_known(topic, asked.deadline)
                left = max(_LEAST, asked.deadline - clock())
                await send_drivers.send(self._core, asked.outgoing, choice, tries, left)
        except RocketMQError:
            if pending.reply is None:
                raise
        with trio.move_on_at(asked.deadline):
            await pending.ended.wait()
        if pending.reply is not None:
            return self._preparer.read(pending.reply)
        if pending.ended.is_set():
            raise ClientClosedError(
                f"the producer was closed before a reply to a message for {topic} arrived; a consumer may have "
                "received the message"
            )
        raise ReplyTimeoutError(
            f"no reply to a message for {topic} arrived within {asked.timeout:g} s: check that a consumer of the topic "
            "is running and replies, or raise the timeout; a consumer may have received the message",
            timeout=asked.timeout,
            correlation_id=asked.correlation_id,
        )

    async def _be_known(self, topic: str, deadline: float) -> None:
        """Make every broker of a topic know this client, so that any of them can push the reply."""
        client, clock = self._client, self._core.clock
        if client.routes.publish_info(topic) is None:
            await ensure_route(self._core, topic, timeout=max(_LEAST, deadline - clock()))
        route = client.routes.route(topic)
        masters = {each[MASTER_ID] for each in route.brokers.values() if MASTER_ID in each} if route else set()
        if not client.heartbeats.are_told(masters):
            with trio.move_on_at(deadline):
                await client.heartbeats.tell(masters)
