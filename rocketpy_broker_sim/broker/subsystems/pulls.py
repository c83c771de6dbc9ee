"""Long polls as a part of the broker: the table of waiters, what wakes them, and how a pull is run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.wire.sysflag import Permission
from rocketpy_broker_sim.broker.lanes import MOST_PENDING
from rocketpy_broker_sim.broker.long_polling import held_pull
from rocketpy_broker_sim.broker.runtime_info import measures_of_waiters
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.waiters import Bounds, Waiters

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.headers.pull import PullMessageRequestHeader
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.broker.turn import Turn
    from rocketpy_broker_sim.broker.waiters import Waiter
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.memory import Account
    from rocketpy_broker_sim.store.filtering import MessageFilter

__all__ = ["Pulls"]


class Pulls(Subsystem):
    """The pulls that wait.

    Args:
        config: the settings.
        resume: runs a pull again.
        turn: brings what wakes pulls, and lets the answers go.
        topics: says which queues there are.
        account: what held pulls keep counts there.

    Attributes:
        waiters: The table of all that wait, of whatever kind.
    """

    def __init__(
        self,
        config: BrokerConfig,
        resume: Callable[[Connection, RemotingCommand], None],
        turn: Turn,
        topics: TopicTable,
        account: Account,
    ) -> None:
        self._run_again = resume
        self._turn = turn
        self._topics = topics
        self.waiters = Waiters(
            Bounds(number=config.max_held_pulls, number_of_connection=config.max_held_pulls_per_connection),
            account,
        )
        turn.subscribe(self.waiters.arrived)
        topics.subscribe(self._topics_changed)

    def hold(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: PullMessageRequestHeader,
        wanted: MessageFilter | None,
        seconds: float,
    ) -> bool:
        """Keep a pull for up to so many seconds. False when it may not wait: answer it now."""
        return self.waiters.hold(held_pull(connection, request, header, wanted, self._resume), seconds)

    def _topics_changed(self, names: Iterable[str]) -> None:
        """Answer the pulls that wait for queues which are no more, or may not be read any more."""
        # Thousands of topics may change at once, and nobody waits for most of them.
        self.waiters.queues_gone({name: self._readable_queues(name) for name in self.waiters.waited_for(names)})

    def _readable_queues(self, name: str) -> int:
        topic = self._topics.get(name)
        return topic.read_queue_nums if topic is not None and Permission.is_readable(topic.perm) else 0

    def _resume(self, waiter: Waiter) -> None:
        self._run_again(waiter.connection, waiter.request)
        if self._turn.pending_bytes > MOST_PENDING:
            # A thousand groups may wait for the same messages: their answers must not gather.
            self._turn.finish()

    def run(self) -> Iterable[Service]:
        """Answering pulls whose time is up, and those that were too many for one turn."""
        yield partial(self.waiters.serve, self._turn.finish)

    async def settle(self) -> None:
        """Answer all pulls, and hold none any more."""
        self.waiters.close()
        await self.waiters.wait_none()

    def measures(self) -> Mapping[str, str]:
        """How many wait, and why others wait no longer."""
        return measures_of_waiters(self.waiters)
