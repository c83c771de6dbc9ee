"""TransactionProducer for blocking code. Thread-safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast, final
from weakref import WeakMethod

from rocketpy.errors import RocketMQError
from rocketpy.producer import TransactionProducer as TrioProducer
from rocketpy.producer.local_half import EXECUTOR, NOT_OK, is_async, judged, names_first, raised
from rocketpy.producer.surface import ProducerSurface
from rocketpy.results import SendStatus
from rocketpy.sync.calls import call_in_own_loop
from rocketpy.sync.producer import Producer

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.client.sends.selection import QueueSelector
    from rocketpy.config import ProducerConfig, TransactionProducerConfig
    from rocketpy.config.typed import TransactionProducerSettings
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.checks import ChecksStatistics
    from rocketpy.producer.local_half import Checker, Executor
    from rocketpy.producer.transacting import End
    from rocketpy.remoting.network import Network
    from rocketpy.results import TransactionSendResult
    from rocketpy.sync.client import MQClientInstance

__all__ = ["TransactionProducer"]


@final
class TransactionProducer(Producer):
    """Sends transactional messages: ``with rocketpy.sync.TransactionProducer("orders", checker=check) as producer:``.

    Arguments and methods are those of `rocketpy.TransactionProducer`, without `await`. Plain checkers run in threads of
    their own, plain executors in the thread that sends. Async ones run each in a trio loop in a thread of its own.
    """

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
        **fields: Unpack[TransactionProducerSettings],
    ) -> None:
        more: dict[str, Any] = {"checker": checker, "executor": executor, **fields}  # for `_make_inner`
        super().__init__(group, config=config, client=client, network=network, **more)

    def _make_inner(self, group: str | None, **arguments: Any) -> TrioProducer:
        surface = ProducerSurface(async_caller=call_in_own_loop, statistics=WeakMethod(self.statistics))
        return TrioProducer(group, _surface=surface, **arguments)

    @property
    def config(self) -> TransactionProducerConfig:
        """The settings."""
        return cast("TrioProducer", self._inner).config

    def check_statistics(self) -> ChecksStatistics:
        """Return counts of the checks of brokers. See `rocketpy.TransactionProducer.check_statistics`."""
        self._check_process()
        return cast("TrioProducer", self._inner).check_statistics()

    def send_in_transaction(
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

        See `rocketpy.TransactionProducer.send_in_transaction`. A plain executor is called in the thread of the caller.
        """
        self._check_process()
        transactions = self._inner.outside.transactions
        half, chosen = transactions.begin(message, executor)
        sent = self.send(half, queue=queue, selector=selector, arg=None if selector is None else arg, timeout=timeout)
        outcome = NOT_OK
        if sent.status is SendStatus.SEND_OK:
            try:
                outcome = judged(EXECUTOR, self._execute(chosen, half, arg))
            except Exception as exc:  # noqa: BLE001  it is part of the result
                outcome = raised(EXECUTOR, exc)
        end = transactions.end(half, sent, outcome)
        self._tell(end)
        return end.result

    def _execute(self, executor: Executor, half: Message, arg: Any) -> object:
        """Call an executor."""
        if is_async(executor):
            return self._portal.call(call_in_own_loop, executor, (half, arg))
        return executor(half, arg)

    def _tell(self, end: End) -> None:
        """Send the state to the broker, over a data connection if there is one."""
        if end.header is None:
            return
        transactions = self._inner.outside.transactions
        try:
            connection = self._direct.nowait(end.address)
            if connection is None:
                self._portal.call(transactions.tell, end)
            else:
                connection.send_frame(transactions.frame_of(end, connection))
        except RocketMQError as exc:
            transactions.note_untold(end.result, exc)
