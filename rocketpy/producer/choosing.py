"""Who chooses the queue of a send that does not leave it to us: a queue that was given, or a selector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketpy.client.sends.selection import QueueSelector, select_by
from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageQueue

if TYPE_CHECKING:
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.client.sends.sending import Choice

__all__ = ["Fixed", "choice_of", "fixed"]


class Fixed:
    """Chooses one queue, whatever there is.

    Attributes:
        queue: That one.
    """

    __slots__ = ("queue",)

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue

    def __call__(self, info: TopicPublishInfo) -> MessageQueue:
        """The queue."""
        return self.queue


def choice_of(message: Message, queue: MessageQueue | None, selector: QueueSelector | None, arg: Any) -> Choice | None:
    """What chooses the queue of a message; None when it is left to us.

    Raises:
        ConfigError: this is no queue for the message, no selector, or both; or an argument for no selector.
    """
    if selector is None and arg is not None:
        raise ConfigError("arg is passed to a selector, and there is no selector: pass selector= too, such as by_hash")
    if queue is None and selector is None:
        return None
    if queue is not None and selector is not None:
        raise ConfigError("give a queue or a selector, not both")
    if queue is not None:
        return fixed(message, queue)
    if not callable(selector):
        raise ConfigError(f"a selector is a function of queues, message and arg, not {selector!r}")
    chooser = selector
    return lambda info: select_by(chooser, info.queues, message, arg)


def fixed(message: Message, queue: MessageQueue) -> Fixed:
    """This queue and no other.

    Raises:
        ConfigError: it is none for the message.
    """
    if not isinstance(queue, MessageQueue):
        raise ConfigError(f"queue must be a MessageQueue, not {queue!r:.100}")
    if queue.topic != message.topic:
        raise ConfigError(f"the message goes to {message.topic}, the queue belongs to {queue.topic}")
    return Fixed(queue)
