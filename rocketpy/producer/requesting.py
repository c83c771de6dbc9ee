"""Requests of a producer: it sends a message, and waits for a consumer's reply.

The broker that gets the reply pushes it to the client that made the request, which it knows from its heartbeats. So
every broker of the topic must have a heartbeat of the client before the request is sent. Plays the part of request in
DefaultMQProducerImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import trio

from rocketpy.client import send_drivers
from rocketpy.client.outgoing import Outgoing
from rocketpy.client.requests import new_correlation_id
from rocketpy.client.sound import explaining
from rocketpy.errors import ClientClosedError, ReplyTimeoutError, RocketMQError
from rocketpy.message.reply import as_request
from rocketpy.producer.choosing import choice_of
from rocketpy.wire.bodies.route import MASTER_ID

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.lifecycle import Lifecycle
    from rocketpy.client.outgoing import Preparer
    from rocketpy.client.requests import PendingRequest
    from rocketpy.client.selection import QueueSelector
    from rocketpy.client.sending import Choice, SendCore
    from rocketpy.config import ProducerConfig
    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.producer.outside import Outside

__all__ = ["Asked", "Requesting"]

_LEAST = 0.001


@attrs.frozen(eq=False)
class Asked:
    """A request that is ready to be sent."""

    outgoing: Outgoing
    correlation_id: str
    deadline: float
    """For sending and for the reply, on the clock of the client."""
    timeout: float
    """The timeout in seconds from which the deadline was computed."""


class Requesting:
    """The requests of a producer, as a base class."""

    client: MQClientInstance
    config: ProducerConfig
    outside: Outside
    _core: SendCore
    _lifecycle: Lifecycle
    _preparer: Preparer

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> MessageExt:
        """Send a message and wait for the reply of the consumer that gets it.

        The consumer makes the reply with `create_reply_message` and sends it with a producer. The message is sent and
        retried as in `send`, so a consumer may get it twice; the first reply counts. A reply that arrives after
        `timeout` is dropped and logged.

        Args:
            message: the message.
            queue: the queue, as in `send`.
            selector: chooses the queue, as in `send`.
            arg: passed to the selector.
            timeout: seconds for sending the message and waiting for the reply, `send_timeout` when None.

        Returns:
            The reply.

        Raises:
            ReplyTimeoutError: the message was sent, and no reply arrived in time.
            TooManyRequestsError: too many requests wait for replies.
            ClientClosedError: the producer was closed before a reply arrived.
            RocketMQError: the message could not be sent, as in `send`.
        """
        self._lifecycle.check_here()
        asked = self.prepare_request(message, timeout)
        choice = choice_of(message, queue, selector, arg)
        return await self.ask(asked, choice, self.config.retry_times_when_send_failed)

    def prepare_request(self, message: Message, timeout: float | timedelta | None) -> Asked:
        """Check and encode a request, from any thread; for `ask`.

        Raises:
            ConfigError: it cannot be sent as it is.
            SerializationError: its value cannot be written.
            ClientClosedError: the producer is not open.
        """
        self._lifecycle.check_open()
        seconds = self.outside.seconds(timeout)
        correlation_id = new_correlation_id()
        with explaining([message]):
            made = as_request(
                self._preparer.filled(message),
                correlation_id=correlation_id,
                client_id=self.client.client_id,
                ttl=max(1, round(seconds * 1000)),
            )
        return Asked(self._preparer.one(made), correlation_id, self._core.clock() + seconds, seconds)

    async def ask(self, asked: Asked, choice: Choice | None, retries: int) -> MessageExt:
        """Send a prepared request and wait for its reply, in the loop of the producer. Raises as `request`."""
        if not self._core.is_open:  # while it closes, requests that were accepted before still run
            self._lifecycle.check_open()
        requests = self.client.requests
        pending = requests.open(asked.correlation_id, self)
        self._one_more()
        try:
            return await self._ask(asked, choice, 1 + retries, pending)
        finally:
            requests.close(pending)
            self._one_less()

    async def _ask(self, asked: Asked, choice: Choice | None, tries: int, pending: PendingRequest) -> MessageExt:
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
        client, clock = self.client, self._core.clock
        if client.routes.publish_info(topic) is None:
            await self.outside.ensure_route(topic, timeout=max(_LEAST, deadline - clock()))
        route = client.routes.route(topic)
        masters = {each[MASTER_ID] for each in route.brokers.values() if MASTER_ID in each} if route else set()
        if not client.heartbeats.are_told(masters):
            with trio.move_on_at(deadline):
                await client.heartbeats.tell(masters)

    if TYPE_CHECKING:  # what a producer has

        def _one_more(self) -> None: ...

        def _one_less(self) -> None: ...

        def checked_timeout(self, timeout: Any) -> float: ...
