"""TransactionProducer for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Unpack, cast, final
from weakref import WeakMethod

from rocketpy.aio.calls import LoopCaller
from rocketpy.aio.producer import Producer
from rocketpy.errors import RocketMQError
from rocketpy.producer import TransactionProducer as TrioProducer
from rocketpy.producer.local_half import EXECUTOR, NOT_OK, in_thread, is_async, judged, names_first, raised
from rocketpy.producer.surface import ProducerSurface
from rocketpy.results import SendStatus

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.aio.bridge import Bridge
    from rocketpy.aio.client import MQClientInstance
    from rocketpy.client.sends.selection import QueueSelector
    from rocketpy.config import ProducerConfig, TransactionProducerConfig
    from rocketpy.config.typed import TransactionProducerSettings
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.checks import ChecksStatistics
    from rocketpy.producer.local_half import Checker, Executor
    from rocketpy.producer.transacting import End
    from rocketpy.remoting.network import Network
    from rocketpy.results import TransactionSendResult

__all__ = ["TransactionProducer"]


@final
class TransactionProducer(Producer):
    """Sends transactional messages: ``async with rocketpy.aio.TransactionProducer("orders", checker=check) as p:``.

    Arguments and methods are those of `rocketpy.TransactionProducer`. Async checkers and executors run in the loop in
    which the producer was opened, plain ones in threads.
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

    def _make_inner(self, group: str | None, bridge: Bridge, **arguments: Any) -> TrioProducer:
        surface = ProducerSurface(async_caller=LoopCaller(bridge), statistics=WeakMethod(self.statistics))
        return TrioProducer(group, _surface=surface, **arguments)

    @property
    def config(self) -> TransactionProducerConfig:
        """The settings."""
        return cast("TrioProducer", self._inner).config

    def check_statistics(self) -> ChecksStatistics:
        """Return counts of the checks of brokers. See `rocketpy.TransactionProducer.check_statistics`."""
        self._bridge.check()
        return cast("TrioProducer", self._inner).check_statistics()

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

        See `rocketpy.TransactionProducer.send_in_transaction`. An async executor is awaited in the task of the caller.
        """
        self._bridge.check()
        transactions = self._inner.outside.transactions
        half, chosen = transactions.begin(message, executor)
        sent = await self.send(
            half, queue=queue, selector=selector, arg=None if selector is None else arg, timeout=timeout
        )
        outcome = NOT_OK
        if sent.status is SendStatus.SEND_OK:
            try:
                outcome = judged(EXECUTOR, await _execute(chosen, half, arg))
            except Exception as exc:  # noqa: BLE001  the caller gets it with the result
                outcome = raised(EXECUTOR, exc)
        end = transactions.end(half, sent, outcome)
        await self._tell(end)
        return end.result

    async def _tell(self, end: End) -> None:
        """Send the state to the broker, over a data connection if there is one."""
        if end.header is None:
            return
        transactions = self._inner.outside.transactions
        try:
            connection = self._direct.nowait(end.address)
            if connection is None:
                await self._bridge.call(transactions.tell, end)
            else:
                connection.send_frame(transactions.frame_of(end, connection))
        except RocketMQError as exc:
            transactions.note_untold(end.result, exc)


async def _execute(executor: Executor, half: Message, arg: Any) -> object:
    """Call an executor."""
    if is_async(executor):
        return await cast("Any", executor(half, arg))
    return await asyncio.to_thread(in_thread, executor, half, arg)
