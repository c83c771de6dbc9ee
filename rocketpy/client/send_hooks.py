"""Send hooks: the user's functions around each attempt of a send. One may forbid it, one is called before, one after.

On trio, they are called in the loop. On the other surfaces, they are called in a background thread of rocketpy for the
first sends to a broker, for retries and for answers to `send_soon`, and otherwise in the thread of the sender. So they
must be fast, must not block, and must not rely on the sender's context. Plays the part of CheckForbiddenHook,
SendMessageHook and their contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import attrs

from rocketpy.client.preparing.outgoing import Outgoing
from rocketpy.errors import RocketMQError
from rocketpy.forked import ChildEnds
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import Message, MessageQueue
from rocketpy.reprs import Short
from rocketpy.services import is_from_outside
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.properties import decode_properties

if TYPE_CHECKING:
    from rocketpy.config import ProducerConfig
    from rocketpy.results import SendResult

__all__ = ["SendContext", "SendHooks"]

logger = get_logger(__name__)


@attrs.define(eq=False, repr=False)
class SendContext(Short):
    """One attempt of a send, for hooks. All hooks of an attempt get the same object."""

    group: str
    """The group of the producer."""
    queue: MessageQueue
    """The queue to which the message is sent."""
    broker_address: str
    """The address of the broker, with its port."""
    oneway: bool
    """Whether the send has no answer, as in `send_oneway`."""
    unit_mode: bool
    """The setting `unit_mode` of the producer."""
    is_batch: bool
    """Whether several messages are sent in one frame."""
    _outgoing: Outgoing = attrs.field(repr=False)
    props: dict[str, Any] = attrs.Factory(dict)
    """Values that the hooks of an attempt pass to each other."""
    _messages: tuple[Message, ...] | None = attrs.field(default=None, repr=False)

    @property
    def message_id(self) -> str:
        """The unique id of the message; for a batch, the ids of its messages, joined by commas."""
        return self._outgoing.message_id

    @property
    def topic(self) -> str:
        """The topic of the message."""
        return self._outgoing.topic

    @property
    def messages(self) -> tuple[Message, ...]:
        """The message, or all messages of a batch.

        They are already encoded, so changes to them are not sent. The messages of a batch are decoded on first access.
        """
        if self._messages is None:
            self._messages = tuple(_messages_of(self._outgoing))
        return self._messages


def _messages_of(outgoing: Outgoing) -> list[Message]:
    if outgoing.is_batch:
        items = decode_batch(outgoing.body)
        return [_made(outgoing.topic, item.flag, item.body, item.properties.decode()) for item in items]
    message = outgoing.message
    if outgoing.stands_in:
        return [_made(outgoing.topic, message.flag, message.body, outgoing.properties)]
    return [message]


def _made(topic: str, flag: int, body: bytes, properties: str) -> Message:
    made = Message.__new__(Message)  # without the checks, which were made before
    made.topic, made.body, made.flag, made.wire_properties = topic, body, flag, decode_properties(properties)
    return made


class SendHooks:
    """The hooks of one producer. Thread-safe.

    Args:
        config: the settings, with the hooks.

    Attributes:
        refusals: the exceptions that `check_forbidden` raised, as long as they are referenced elsewhere.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._seldom = Seldom(logger)
        self.refusals: WeakSet[BaseException] = WeakSet()

    @classmethod
    def of(cls, config: ProducerConfig) -> SendHooks | None:
        """Return the hooks, or None if there are none."""
        hooks = config.check_forbidden, config.before_send, config.after_send
        return None if hooks == (None, None, None) else cls(config)

    def begin(self, outgoing: Outgoing, queue: MessageQueue, address: str, *, oneway: bool = False) -> SendContext:
        """Call the hooks before an attempt, and return their context.

        Raises:
            Exception: any exception of `check_forbidden`, which forbids the attempt.
        """
        config = self._config
        context = SendContext(
            config.group, queue, address, oneway, config.unit_mode, outgoing.is_batch, outgoing=outgoing
        )
        if config.check_forbidden is not None:
            try:
                with ChildEnds():
                    config.check_forbidden(context)
            except RocketMQError as error:  # not to be mistaken for an answer of a broker
                self.refusals.add(error)
                raise
        if config.before_send is not None:
            self._call("before_send", config.before_send, context)
        return context

    def end(self, context: SendContext, outcome: SendResult | BaseException | None) -> None:
        """Call the hook after an attempt, with its result, its error, or None for a one-way send."""
        if self._config.after_send is not None:
            self._call("after_send", self._config.after_send, context, outcome)

    def _call(self, name: str, hook: Callable[..., object], *arguments: object) -> None:
        try:
            with ChildEnds():
                hook(*arguments)
        except BaseException as error:
            if is_from_outside(error):
                raise
            self._seldom.warning(
                (name, type(error).__name__),
                "%s failed for a message to %s",
                name,
                self._topic(arguments[0]),
                exc_info=error,
            )

    @staticmethod
    def _topic(context: object) -> str:
        return context.topic if isinstance(context, SendContext) else ""
