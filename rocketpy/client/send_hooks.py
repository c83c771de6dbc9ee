"""Functions of the user's around each try of a send: one that may forbid it, one before it and one after it.

They are called where the try is made: in the thread or loop of the sender, and for `send_soon` and for tries that
follow a failure in the loop of the client. So they must be quick, and must not wait. Plays the part of
CheckForbiddenHook, SendMessageHook and their contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import attrs

from rocketpy.client.outgoing import Outgoing
from rocketpy.errors import RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import Message, MessageQueue
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.properties import decode_properties

if TYPE_CHECKING:
    from rocketpy.config import ProducerConfig
    from rocketpy.results import SendResult

__all__ = ["SendContext", "SendHooks"]

logger = get_logger(__name__)

_FAILURES = (Exception, SystemExit)
"""What counts as a failure of a hook. Ctrl-C does not."""


@attrs.define(eq=False)
class SendContext:
    """One try of a send, as hooks see it. The hooks of one try get the same object."""

    group: str
    """Of the producer."""
    queue: MessageQueue
    """Where the message goes."""
    broker_address: str
    oneway: bool
    """Whether no answer is asked for."""
    unit_mode: bool
    is_batch: bool
    """Whether several messages travel in one frame."""
    _outgoing: Outgoing = attrs.field(repr=False)
    props: dict[str, Any] = attrs.Factory(dict)
    """What one hook leaves here, the next ones of the try find."""
    _messages: tuple[Message, ...] | None = attrs.field(default=None, repr=False)

    @property
    def message_id(self) -> str:
        """The unique id; those of a batch, joined by commas."""
        return self._outgoing.message_id

    @property
    def topic(self) -> str:
        """Where it goes."""
        return self._outgoing.topic

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is sent; of a batch each of its messages.

        They are encoded already: changing one changes nothing of what is sent. The messages of a batch are made for
        whoever asks for them.
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
    made = Message.__new__(Message)  # what was sent is not checked again
    made.topic, made.body, made.flag, made.properties = topic, body, flag, decode_properties(properties)
    return made


class SendHooks:
    """The hooks of one producer. For any thread.

    Args:
        config: has them.

    Attributes:
        refusals: what `check_forbidden` has raised, as long as somebody has it.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._seldom = Seldom(logger)
        self.refusals: WeakSet[BaseException] = WeakSet()

    @classmethod
    def of(cls, config: ProducerConfig) -> SendHooks | None:
        """The hooks, None where there are none."""
        hooks = config.check_forbidden, config.before_send, config.after_send
        return None if hooks == (None, None, None) else cls(config)

    def begin(self, outgoing: Outgoing, queue: MessageQueue, address: str, *, oneway: bool = False) -> SendContext:
        """A try begins.

        Raises:
            Exception: whatever `check_forbidden` raises, to forbid it.
        """
        config = self._config
        context = SendContext(
            config.group, queue, address, oneway, config.unit_mode, outgoing.is_batch, outgoing=outgoing
        )
        if config.check_forbidden is not None:
            try:
                config.check_forbidden(context)
            except RocketMQError as error:  # not to be taken for what a broker says
                self.refusals.add(error)
                raise
        if config.before_send is not None:
            self._call("before_send", config.before_send, context)
        return context

    def end(self, context: SendContext, outcome: SendResult | BaseException | None) -> None:
        """A try has ended: with the result, with an error, or with nothing for one that has no answer."""
        if self._config.after_send is not None:
            self._call("after_send", self._config.after_send, context, outcome)

    def _call(self, name: str, hook: Callable[..., object], *arguments: object) -> None:
        try:
            hook(*arguments)
        except _FAILURES as error:
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
