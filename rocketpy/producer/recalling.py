"""Recalls of a producer: it recalls messages that are not due yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.lifecycle import Lifecycle
    from rocketpy.client.sending import SendCore
    from rocketpy.config import ProducerConfig
    from rocketpy.producer.outside import Outside

__all__ = ["Recalling"]


class Recalling:
    """The recalls of a producer, as a base class."""

    client: MQClientInstance
    config: ProducerConfig
    outside: Outside
    _core: SendCore
    _lifecycle: Lifecycle

    async def recall(self, topic: str, handle: str | None, *, timeout: float | timedelta | None = None) -> str:
        """Recall a message that was sent with `delay` or `deliver_at` and is not due yet.

        Any producer may recall it. Brokers permit recalls only with `recallMessageEnable=true`. The broker does not
        report whether it still had the message, but it does not deliver the message after that.

        Args:
            topic: the topic of the message.
            handle: `recall_handle` of the result of the send. None, which it is for messages that cannot be recalled,
                is refused.
            timeout: seconds for the whole call, `send_timeout` when None.

        Returns:
            The unique id of the message.

        Raises:
            ConfigError: the handle is not valid, or belongs to another topic; nothing was sent.
            RouteNotFoundError: the broker that has the message is not known.
            NoPermissionError: the broker does not permit recalls.
            IllegalOperationError: the message is already due, or belongs to another broker.
            RequestCodeNotSupportedError: the broker is older than RocketMQ 5.3.
            BrokerError: the broker refused for another reason.
            TransportError, RequestTimeoutError: no answer; whether the message is recalled is unknown.
        """
        from rocketpy.client.recalling import recall  # few producers recall messages

        self._lifecycle.check_here()
        seconds = self.outside.seconds(timeout)
        tracer = self._core.tracer
        return await recall(self.client, self.config.group, topic, handle, timeout=seconds, tracer=tracer)
