"""Transactions of a producer: what sends in transactions have in common on every surface.

A half message is made here, and what ends it; each surface sends the one, calls the executor, and tells the broker of
the other. Plays the part of sendMessageInTransaction in DefaultMQProducerImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketpy.client.preparing.sound import explaining
from rocketpy.client.transactions import EndFrames, end_command, end_of, half_of
from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.producer.checks import Checks
from rocketpy.producer.local_half import EXECUTOR, CheckerCalls, checked_function
from rocketpy.results import TransactionSendResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.client.preparing.outgoing import Preparer
    from rocketpy.client.sends.sending import RequestConnection, SendCore
    from rocketpy.client.user_loop import AsyncCaller
    from rocketpy.config import TransactionProducerConfig
    from rocketpy.message import Message
    from rocketpy.producer.local_half import Checker, Executor, LocalFunctions, Outcome
    from rocketpy.results import SendResult
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.headers.transaction import EndTransactionRequestHeader
    from rocketpy.wire.message_id import UniqueIds

__all__ = ["End", "Transactions"]

logger = get_logger(__name__)


class End(NamedTuple):
    """The end of a transaction: the result for the caller, and the END_TRANSACTION request for the broker.

    Attributes:
        result: the result for the caller.
        address: the address of the broker.
        header: the header of the request; None if it cannot be sent, so that the broker will check the transaction.
        remark: why the state is unknown.
    """

    result: TransactionSendResult
    address: str = ""
    header: EndTransactionRequestHeader | None = None
    remark: str | None = None

    @property
    def command(self) -> RemotingCommand:
        """The request."""
        assert self.header is not None
        return end_command(self.header, self.remark)


class Transactions:
    """The transactions of one producer.

    Args:
        config: the settings of the producer.
        core: what the attempts of its sends share.
        preparer: checks and encodes messages.
        unique_ids: makes the ids of half messages.
        functions: the user's functions.
        async_caller: calls async checkers.
    """

    def __init__(
        self,
        config: TransactionProducerConfig,
        core: SendCore,
        preparer: Preparer,
        unique_ids: UniqueIds,
        functions: LocalFunctions,
        async_caller: AsyncCaller,
    ) -> None:
        self._config = config
        self._core = core
        self._preparer = preparer
        self._unique_ids = unique_ids
        self._functions = functions
        self._call = CheckerCalls(config.group, config.check_thread_pool_max_size, async_caller)
        self._seldom = Seldom(logger)
        self._end_frames = EndFrames()

    # --- checks ---------------------------------------------------------------------------------------------

    def wrap_checker(self, wrap: Callable[[Checker], Checker]) -> None:
        """Have the checker called by a function around it, once the producer is opened; for telemetry."""
        self._functions.checker = wrap(self._functions.checker)

    def new_checks(self) -> Checks:
        """Return what answers checks of brokers, when the producer opens."""
        core = self._core
        return Checks(self._config, core.client.pool, self._functions.checker, self._call, core.tracer)

    @property
    def in_checker(self) -> bool:
        """Whether the current code was called by the checker, which cannot wait for its own end."""
        return self._call.is_here

    # --- sends ----------------------------------------------------------------------------------------------

    def begin(self, message: Message, executor: Executor | None) -> tuple[Message, Executor]:
        """Return the half message of a message, and the executor for it. Thread-safe.

        Raises:
            ConfigError: the message cannot be sent in a transaction, or there is no executor.
        """
        chosen = self._functions.executor if executor is None else checked_function(EXECUTOR, executor, 2)
        if chosen is None:
            raise ConfigError("there is no executor: pass one to send_in_transaction or to the producer")
        with explaining([message]):
            return half_of(self._preparer.filled(message), self._config.group, self._unique_ids.next()), chosen

    def end(self, half: Message, sent: SendResult, outcome: Outcome) -> End:
        """Return the end of a transaction, given the outcome of its local transaction. Thread-safe."""
        transaction_id, error = half.transaction_id or sent.message_id, outcome.error
        result = TransactionSendResult(
            sent, transaction_id, outcome.state, error if isinstance(error, Exception) else None
        )
        if outcome.problem is not None:
            self._seldom.error(
                ("executor", type(error)),
                "group %s: the state of the transaction %s is UNKNOWN: %s",
                self._config.group,
                transaction_id,
                outcome.line,
                exc_info=outcome.raised,
            )
        try:
            broker_name, address = self._core.target(sent.queue)
            header = end_of(half, sent, outcome.state, self._config.group, broker_name)
        except RocketMQError as exc:
            self.note_untold(result, exc)
            return End(result)
        if (tracer := self._core.tracer) is not None:
            properties, unique_id = half.wire_properties, sent.message_id
            tracer.ended(half.topic, properties, unique_id, transaction_id, address, outcome.state, from_check=False)
        return End(result, address, header, outcome.problem)

    async def tell(self, end: End) -> None:
        """Send the state of a transaction to the broker. If that fails, the broker will check the transaction."""
        if end.header is None:
            return
        pool = self._core.client.pool
        try:
            connection = pool.nowait(end.address) or await pool.get(end.address, timeout=self._config.send_timeout)
            if connection.hooks:
                connection.send_oneway(end.command)
            else:
                connection.send_frame(self.frame_of(end, connection))
        except RocketMQError as exc:
            self.note_untold(end.result, exc)

    def frame_of(self, end: End, connection: RequestConnection) -> bytes:
        """Return the END_TRANSACTION request, encoded for a connection of any kind. Thread-safe."""
        assert end.header is not None
        return self._end_frames.frame(connection, end.header, end.remark)

    def note_untold(self, result: TransactionSendResult, exc: RocketMQError) -> None:
        """Log that the state of a transaction did not reach the broker."""
        self._seldom.warning(
            "untold",
            "group %s: the state of the transaction %s, %s, did not reach the broker, which will check it: %s",
            self._config.group,
            result.transaction_id,
            result.local_state.value,
            exc,
        )
