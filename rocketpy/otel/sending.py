"""Spans of producers: each public sending method of one object is replaced by one that makes a span around the call.

The context of the span travels in the properties of a copy of the message, so that a message can be sent again. The
span is current in the context of the caller: in its task or thread, on every surface.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial, wraps
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanKind

from rocketpy.message import Message
from rocketpy.otel.conventions import (
    BATCH_COUNT,
    CLIENT_ID,
    DESTINATION,
    MESSAGE_ID,
    PRODUCER_GROUP,
    TRANSACTION_STATE,
    Attributes,
    of_result,
    topics_of,
)
from rocketpy.otel.instruments import Instruments, Operation, described, ending, unharmed
from rocketpy.producer.local_half import is_async, judged
from rocketpy.results import LocalTransactionState, SendManyResult, SendResult, TransactionSendResult
from rocketpy.wire.message_columns import MessageColumns

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from rocketpy.message import MessageExt

__all__ = ["Sends"]


class Sends:
    """The spans of one producer.

    Args:
        instruments: makes the spans.
        producer: a producer of any surface.
    """

    def __init__(self, instruments: Instruments, producer: Any) -> None:
        self._instruments = instruments
        self._producer = producer
        self._about: Attributes = {PRODUCER_GROUP: producer.config.group, CLIENT_ID: client_id_of(producer)}

    def replace(self) -> None:
        """Replace the sending methods that the producer has."""
        for name, begin in {
            "send": self._one,
            "send_oneway": self._one,
            "send_batch": self._batch,
            "send_many": self._many,
            "request": self._one,
            "send_in_transaction": self._transaction,
            "send_soon": self._one,
            "request_soon": self._one,
        }.items():
            original = getattr(self._producer, name, None)
            if original is not None:
                setattr(self._producer, name, self._around(name, original, begin))

        inner = getattr(self._producer, "_inner", self._producer)
        if hasattr(inner, "send_in_transaction"):
            inner.outside.transactions.wrap_checker(self._around_checker)

    def _around_checker(self, checker: Callable[[MessageExt], Any]) -> Callable[[MessageExt], Any]:
        """A checker of the same kind, with a span around each call, which is a child of the send of the half
        message."""

        def begin(message: MessageExt) -> Operation:
            attributes = self._about | {DESTINATION: message.topic, MESSAGE_ID: message.message_id}
            context = self._instruments.extract(message)
            return self._instruments.begin(SpanKind.INTERNAL, "check", "check", attributes, 0, context=context)

        if is_async(checker):

            @wraps(checker)
            async def awaited(message: MessageExt) -> object:
                with ending(begin(message)) as operation:
                    state = await checker(message)
                    _note_state(operation, state)
                return state

            return awaited

        @wraps(checker)
        def called(message: MessageExt) -> object:
            with ending(begin(message)) as operation:
                state = checker(message)
                _note_state(operation, state)
            return state

        return called

    def _around(self, name: str, original: Callable[..., Any], begin: Callable[[str, Any], Any]) -> Callable[..., Any]:
        begun = partial(_begun, partial(begin, name.removesuffix("_soon")), next(iter(signature(original).parameters)))
        if iscoroutinefunction(original):

            @wraps(original)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                operation, args, kwargs = begun(args, kwargs)
                with ending(operation):
                    result = await original(*args, **kwargs)
                    _note(operation, result)
                return result

            return awaited

        @wraps(original)
        def called(*args: Any, **kwargs: Any) -> Any:
            operation, args, kwargs = begun(args, kwargs)
            with ending(operation):
                result = original(*args, **kwargs)
                _note(operation, result)
            return result

        @wraps(original)
        def soon(*args: Any, **kwargs: Any) -> Any:
            operation, args, kwargs = begun(args, kwargs)
            try:
                future = original(*args, **kwargs)
            except BaseException as error:
                operation.end(error)
                raise
            future.when_known(lambda result, error: _end(operation, result, error))
            return future

        return soon if name.endswith("_soon") else called

    # --- spans -------------------------------------------------------------------------------------------

    def _begin(self, name: str, attributes: Attributes, messages: int) -> Operation:
        return self._instruments.begin(SpanKind.PRODUCER, name, "send", self._about | attributes, messages)

    def _one(self, name: str, message: Any) -> tuple[Operation, Any]:
        if not isinstance(message, Message):  # the producer will refuse it
            return self._begin(name, {}, 1), message
        operation = self._begin(name, {DESTINATION: message.topic} | described(message), 1)
        return operation, self._carrying(message, operation.context)

    def _batch(self, name: str, messages: Any) -> tuple[Operation, Any]:
        if not isinstance(messages, Sequence) or not all(isinstance(each, Message) for each in messages):
            return self._begin(name, {}, 0), messages
        count = len(messages)
        attributes: Attributes = {BATCH_COUNT: count}
        topic = topics_of(messages)
        if topic is not None:
            attributes[DESTINATION] = topic
        operation = self._begin(name, attributes, count)
        context = operation.context
        return operation, [self._carrying(message, context) for message in messages]

    def _many(self, name: str, messages: Any) -> tuple[Operation, Any]:
        operation = self._begin(name, {}, 0)
        if isinstance(messages, AsyncIterable):
            return operation, _EachAsync(messages, partial(self._carrying, context=operation.context))
        if isinstance(messages, Iterable):
            return operation, self._each(messages, operation.context)
        return operation, messages

    def _each(self, messages: Iterable[Message | MessageColumns], context: Context) -> Iterator[Message]:
        for given in messages:
            for message in given if type(given) is MessageColumns else (given,):
                yield self._carrying(message, context)

    def _transaction(self, name: str, message: Any) -> tuple[Operation, Any]:
        """The span of the whole transaction, in which the half message is sent and the executor runs."""
        attributes = self._about | ({DESTINATION: message.topic} if isinstance(message, Message) else {})
        return self._instruments.begin(SpanKind.INTERNAL, "transaction", "transaction", attributes, 0), message

    def _carrying(self, message: Any, context: Context) -> Any:
        """A copy of a message that carries a context."""
        if not isinstance(message, Message):
            return message
        made = copy.copy(message)
        made.wire_properties = dict(message.wire_properties)
        self._instruments.inject(made.wire_properties, context)
        return made


class _EachAsync:
    """Messages of an async iterable, each with a context. Not a generator, which would have to be closed."""

    def __init__(self, messages: AsyncIterable[Message], carrying: Callable[[Message], Message]) -> None:
        self._messages = aiter(messages)
        self._carrying = carrying

    def __aiter__(self) -> AsyncIterator[Message]:
        """Itself."""
        return self

    async def __anext__(self) -> Message:
        """The next one."""
        return self._carrying(await anext(self._messages))


def _begun(
    begin: Callable[[Any], tuple[Operation, Any]], first: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Operation, tuple[Any, ...], dict[str, Any]]:
    """The operation of a call, and its arguments with what carries the context in place of the first one.

    Args:
        begin: begins the operation; returns it, and what carries the context.
        first: the name of the first argument, which is what is sent.
        args: the arguments that were given by position.
        kwargs: those that were given by name.
    """
    if args:
        operation, sent = begin(args[0])
        return operation, (sent, *args[1:]), kwargs
    operation, sent = begin(kwargs.get(first))
    return operation, (), kwargs | {first: sent} if first in kwargs else kwargs


def _note_state(operation: Operation, state: object) -> None:
    """Note the state that a checker returned."""
    said = judged("checker", state).state.value
    with unharmed("note a state"):
        operation.span.set_attribute(TRANSACTION_STATE, said)
    if said == "UNKNOWN":
        operation.end(problem=said)


def _end(operation: Operation, result: object, error: BaseException | None) -> None:
    if error is None:
        _note(operation, result)
    operation.end(error)


def _note(operation: Operation, result: object) -> None:
    """Note the result of a send in its span."""
    with unharmed("note a result"):
        _note_in(operation, result)


def _note_in(operation: Operation, result: object) -> None:
    if isinstance(result, SendResult):
        operation.span.set_attributes(of_result(result))
    elif isinstance(result, SendManyResult):
        operation.messages = result.messages
        operation.span.set_attribute(BATCH_COUNT, result.messages)
    elif isinstance(result, TransactionSendResult):
        operation.span.set_attributes({MESSAGE_ID: result.message_id, TRANSACTION_STATE: result.local_state.value})
        if result.error is not None:
            operation.end(result.error)
        elif result.local_state is LocalTransactionState.UNKNOWN:
            operation.end(problem="UNKNOWN")


def client_id_of(role: Any) -> str:
    """The client id of a producer or consumer."""
    inner = getattr(role, "_inner", role)
    client_id: str = inner.client.client_id
    return client_id
