"""TransactionProducer: sends transactional messages, which consumers get only if a local transaction commits, on trio.

Plays the part of TransactionMQProducer, and of sendMessageInTransaction in DefaultMQProducerImpl.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, Unpack, final

from rocketpy.client.sound import explaining
from rocketpy.client.transactions import EndFrames, end_command, end_of, half_of
from rocketpy.config import TransactionProducerConfig
from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.producer.checks import Checks
from rocketpy.producer.local_half import (
    EXECUTOR,
    NOT_OK,
    CheckerCalls,
    call_in_this_loop,
    checked_function,
    judged,
    names_first,
    raised,
    run_here,
)
from rocketpy.producer.producer import Producer
from rocketpy.results import SendStatus, TransactionSendResult

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.roles import TransactionQuestion
    from rocketpy.client.selection import QueueSelector
    from rocketpy.client.sending import RequestConnection
    from rocketpy.config import ProducerConfig
    from rocketpy.config.typed import TransactionProducerSettings
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.checks import ChecksStatistics
    from rocketpy.producer.local_half import AsyncCaller, Checker, Executor, Outcome
    from rocketpy.remoting.network import Network
    from rocketpy.results import SendResult
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.headers.transaction import EndTransactionRequestHeader

__all__ = ["End", "TransactionProducer"]

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


@final
class TransactionProducer(Producer):
    """Sends transactional messages: ``async with rocketpy.TransactionProducer("orders", checker=check) as p:``.

    It also has all methods of `Producer`. Brokers know it from its first heartbeat on, and may send it checks of the
    transactions of any producer of its group, even one that has ended.

    Args:
        group: name of the producer group, which all producers of one application share.
        checker: called with the half message, a `MessageExt`, when a broker checks its transaction; returns a
            `LocalTransactionState`, or its name, such as "commit". If it raises, or returns anything else, the state is
            UNKNOWN. A plain function runs in a thread, an async function in the loop of the producer.
        executor: the default executor of `send_in_transaction`.
        config: the settings; `group` and `fields` override them.
        client: a client to share; without it, the producer makes one of its own.
        network: makes the connections of a client of its own.
        async_caller: calls async checkers; for other surfaces.
        fields: settings by name, as in `TransactionProducerConfig`.

    Raises:
        ConfigError: a setting or a function cannot be used.
    """

    _settings: ClassVar[type[ProducerConfig]] = TransactionProducerConfig
    config: TransactionProducerConfig

    @names_first
    def __init__(
        self,
        group: str | None = None,
        *,
        checker: Checker,
        executor: Executor | None = None,
        config: ProducerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        async_caller: AsyncCaller | None = None,
        **fields: Unpack[TransactionProducerSettings],
    ) -> None:
        settings: dict[str, Any] = {**fields}  # more than those of a producer
        super().__init__(group, config=config, client=client, network=network, async_caller=async_caller, **settings)
        self._made_with |= {"checker": checker, "executor": executor}
        self.checker = checked_function("checker", checker, 1)
        self.executor = None if executor is None else checked_function(EXECUTOR, executor, 2)
        self._call = CheckerCalls(
            self.config.group, self.config.check_thread_pool_max_size, async_caller or call_in_this_loop
        )
        self._checks: Checks | None = None
        self._seldom = Seldom(logger)
        self._end_frames = EndFrames()

    async def __aenter__(self) -> Self:
        """Open the producer. Raises as `Producer` does."""
        self._checks = None
        await super().__aenter__()
        assert self._nursery is not None
        self._checks = Checks(self.config, self.client.pool, self.checker, self._call, self._core.tracer)
        self._nursery.start_soon(self._checks.run)
        self._nursery.start_soon(self._become_known)
        return self

    async def _become_known(self) -> None:
        """Fetch the routes of the topics in the settings: heartbeats go to the brokers of all known routes."""
        for topic in self.config.topics:
            try:
                await self.client.routes.ensure(topic, timeout=self.config.send_timeout)
            except RocketMQError as exc:
                logger.warning(
                    "group %s: the brokers of %s are not known yet, so they cannot send checks to this producer: %s",
                    self.config.group,
                    topic,
                    exc,
                )

    # --- as brokers see it ----------------------------------------------------------------------------------

    def topics(self) -> Iterable[str]:
        """The topics whose brokers need to know the producer."""
        return self.config.topics

    def on_check(self, question: TransactionQuestion) -> None:
        """Take a broker's check of a transaction. Called by the client."""
        if self._checks is not None and self._lifecycle.is_open:
            self._preparer.read(question.message)
            self._checks.take(question)

    @property
    def in_checker(self) -> bool:
        """Whether the current code was called by the checker."""
        return self._call.is_here

    def check_statistics(self) -> ChecksStatistics:
        """Return counts of the checks of brokers.

        Raises:
            ClientClosedError: the producer is not open.
        """
        self.outside.check_open()
        assert self._checks is not None
        return self._checks.statistics()

    # --- sending --------------------------------------------------------------------------------------------

    async def send_in_transaction(
        self,
        message: Message,
        executor: Executor | None = None,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float | timedelta | None = None,
    ) -> TransactionSendResult:
        """Send a message that consumers get only if a local transaction commits.

        The broker stores a half message, which no consumer gets. Then the executor runs the local transaction and
        returns its state, which is sent to the broker. If the state is UNKNOWN, or does not reach the broker, the
        broker sends a check to any producer of the group: first after some seconds, and then at intervals.

        If the half message was stored less safely than the broker is configured to, the transaction is rolled back, and
        the executor is not called. If this call is cancelled, the state remains unknown.

        Args:
            message: the message, without `delay_level`, `delay` and `deliver_at`.
            executor: runs the local transaction: called with the message, whose `transaction_id` is set, and `arg`;
                returns a `LocalTransactionState`, or its name. A plain function runs in a thread. The default is the
                executor of the producer.
            arg: passed to the executor, and to the selector.
            queue: the queue, as in `send`.
            selector: chooses the queue, as in `send`.
            timeout: seconds for sending the half message, `send_timeout` when None. The executor has no time limit.

        Returns:
            The state that was sent to the broker. If the executor raised, or returned anything but a
            `LocalTransactionState`, it is UNKNOWN, and the result has the error.

        Raises:
            ConfigError: the message cannot be sent as it is, or there is no executor; nothing was sent.
            RocketMQError: the half message may not be stored, as in `send`; the executor was not called.
        """
        self._lifecycle.check_here()
        half, executor = self.begin(message, executor)
        choosing = {} if selector is None else {"selector": selector, "arg": arg}
        sent = await self.send(half, queue=queue, timeout=timeout, **choosing)
        outcome = NOT_OK
        if sent.status is SendStatus.SEND_OK:
            try:
                outcome = judged(EXECUTOR, await run_here(executor, half, arg))
            except Exception as exc:  # noqa: BLE001  it is part of the result
                outcome = raised(EXECUTOR, exc)
        end = self.end(half, sent, outcome)
        await self.tell(end)
        return end.result

    def begin(self, message: Message, executor: Executor | None) -> tuple[Message, Executor]:
        """Return the half message of a message, and the executor for it. From any thread.

        Raises:
            ConfigError: the message cannot be sent in a transaction, or there is no executor.
        """
        chosen = self.executor if executor is None else checked_function(EXECUTOR, executor, 2)
        if chosen is None:
            raise ConfigError("there is no executor: pass one to send_in_transaction or to the producer")
        with explaining([message]):
            return half_of(self._preparer.filled(message), self.config.group, self._unique_ids.next()), chosen

    def end(self, half: Message, sent: SendResult, outcome: Outcome) -> End:
        """Return the end of a transaction, given the outcome of its local transaction. From any thread."""
        transaction_id, error = half.transaction_id or sent.message_id, outcome.error
        result = TransactionSendResult(
            sent, transaction_id, outcome.state, error if isinstance(error, Exception) else None
        )
        if outcome.problem is not None:
            self._seldom.error(
                ("executor", type(error)),
                "group %s: the state of the transaction %s is UNKNOWN: %s",
                self.config.group,
                transaction_id,
                outcome.line,
                exc_info=outcome.raised,
            )
        try:
            broker_name, address = self._core.target(sent.queue)
            header = end_of(half, sent, outcome.state, self.config.group, broker_name)
        except RocketMQError as exc:
            self.note_untold(result, exc)
            return End(result)
        if (tracer := self._core.tracer) is not None:
            tracer.ended(
                half.topic, half.properties, sent.message_id, transaction_id, address, outcome.state, from_check=False
            )
        return End(result, address, header, outcome.problem)

    async def tell(self, end: End) -> None:
        """Send the state of a transaction to the broker. If that fails, the broker will check the transaction."""
        if end.header is None:
            return
        pool = self.client.pool
        try:
            connection = pool.nowait(end.address) or await pool.get(end.address, timeout=self.config.send_timeout)
            if connection.hooks:
                connection.send_oneway(end.command)
            else:
                connection.send_frame(self.frame_of(end, connection))
        except RocketMQError as exc:
            self.note_untold(end.result, exc)

    def frame_of(self, end: End, connection: RequestConnection) -> bytes:
        """Return the END_TRANSACTION request, encoded for a connection of any kind. From any thread."""
        assert end.header is not None
        return self._end_frames.frame(connection, end.header, end.remark)

    def note_untold(self, result: TransactionSendResult, exc: RocketMQError) -> None:
        """Log that the state of a transaction did not reach the broker."""
        self._seldom.warning(
            "untold",
            "group %s: the state of the transaction %s, %s, did not reach the broker, which will check it: %s",
            self.config.group,
            result.transaction_id,
            result.local_state.value,
            exc,
        )
