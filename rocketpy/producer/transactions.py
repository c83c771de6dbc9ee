"""TransactionProducer: sends transactional messages, which consumers get only if a local transaction commits, on trio.

Plays the part of TransactionMQProducer, and of sendMessageInTransaction in DefaultMQProducerImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, final

import trio

from rocketpy.config import TransactionProducerConfig
from rocketpy.errors import RocketMQError
from rocketpy.logs import get_logger
from rocketpy.producer.local_half import (
    EXECUTOR,
    NOT_OK,
    LocalFunctions,
    judged,
    names_first,
    raised,
    run_here,
)
from rocketpy.producer.producer import Producer
from rocketpy.producer.roles import CheckedRole
from rocketpy.producer.surface import ON_TRIO, ProducerSurface
from rocketpy.producer.transacting import Transactions
from rocketpy.results import SendStatus, TransactionSendResult

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.roles import ProducerRole
    from rocketpy.client.sends.selection import QueueSelector
    from rocketpy.client.sends.sending import SendCore
    from rocketpy.config import ProducerConfig
    from rocketpy.config.typed import TransactionProducerSettings
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.checks import Checks, ChecksStatistics
    from rocketpy.producer.local_half import Checker, Executor
    from rocketpy.remoting.network import Network

__all__ = ["TransactionProducer"]

logger = get_logger(__name__)


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
        fields: settings by name, as in `TransactionProducerConfig`.

    Raises:
        ConfigError: a setting or a function cannot be used.
    """

    _settings: ClassVar[type[ProducerConfig]] = TransactionProducerConfig
    config: TransactionProducerConfig
    _transactions: Transactions

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
        _surface: ProducerSurface = ON_TRIO,
        **fields: Unpack[TransactionProducerSettings],
    ) -> None:
        self._functions = LocalFunctions(checker, executor)  # before the parts, which are made with it
        settings: dict[str, Any] = {**fields}  # more than those of a producer
        super().__init__(
            group,
            config=config,
            client=client,
            network=network,
            _surface=_surface,
            **settings,
        )
        self._made_with |= {"checker": checker, "executor": executor}
        self._functions.check()
        self._checks: Checks | None = None

    def _new_transactions(self, core: SendCore) -> Transactions:
        return Transactions(
            self.config, core, self._preparer, self._unique_ids, self._functions, self._surface.async_caller
        )

    def _new_role(self) -> ProducerRole:
        made = self._checks = self._transactions.new_checks()
        return CheckedRole(self._core, self._lifecycle, self.config.topics, self._preparer, made)

    async def __aenter__(self) -> Self:
        """Open the producer. Raises as `Producer` does."""
        await super().__aenter__()
        assert self._nursery is not None
        assert self._checks is not None
        self._nursery.start_soon(self._checks.run)
        self._nursery.start_soon(self._become_known)
        return self

    @trio.lowlevel.enable_ki_protection
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
        half, executor = self._transactions.begin(message, executor)
        choosing = {} if selector is None else {"selector": selector, "arg": arg}
        sent = await self.send(half, queue=queue, timeout=timeout, **choosing)
        outcome = NOT_OK
        if sent.status is SendStatus.SEND_OK:
            try:
                outcome = judged(EXECUTOR, await run_here(executor, half, arg))
            except Exception as exc:  # noqa: BLE001  it is part of the result
                outcome = raised(EXECUTOR, exc)
        end = self._transactions.end(half, sent, outcome)
        await self._transactions.tell(end)
        return end.result
