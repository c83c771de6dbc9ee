"""Long polls as a part of the broker: the pulls that are held, and those that wait for their expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.wire.sysflag import Permission
from rocketpy_broker_sim.broker.metrics.parts import metrics_of_waiters
from rocketpy_broker_sim.broker.runtime_info import measures_of_waiters
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem

if TYPE_CHECKING:
    from rocketpy.remoting.dispatch import Processor
    from rocketpy_broker_sim.broker.filters.compiling import Compiling
    from rocketpy_broker_sim.broker.held_requests.waiters import Waiters
    from rocketpy_broker_sim.broker.lanes import Lanes
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.metrics.metric import Family

__all__ = ["Pulls"]


class Pulls(Subsystem):
    """The pulls that wait.

    Args:
        waiters: the table of all that wait, of whatever kind.
        compiling: compiles the expressions of pulls and of heartbeats.
        lanes: run pulls, and let the answers go.
        pull: begins a pull.
        topics: says which queues there are.

    Attributes:
        waiters: The same.
    """

    def __init__(
        self, waiters: Waiters, compiling: Compiling, lanes: Lanes, pull: Processor, topics: TopicTable
    ) -> None:
        self.waiters = waiters
        self._compiling = compiling
        self._lanes = lanes
        self._begin = partial(lanes.submit, "pull", pull)
        self._topics = topics
        topics.subscribe(self._topics_changed)

    def _topics_changed(self, names: Iterable[str]) -> None:
        """Answer the pulls that wait for queues which are no more, or may not be read any more."""
        # Thousands of topics may change at once, and nobody waits for most of them.
        self.waiters.queues_gone({name: self._readable_queues(name) for name in self.waiters.waited_for(names)})

    def _readable_queues(self, name: str) -> int:
        topic = self._topics.get(name)
        return topic.read_queue_nums if topic is not None and Permission.is_readable(topic.perm) else 0

    def run(self) -> Iterable[Service]:
        """Answering pulls whose time is up and those that were too many for one turn, and compiling expressions."""
        yield partial(self.waiters.serve, self._lanes.run_again, self._lanes.finish)
        yield partial(self._compiling.serve, self._begin, self._lanes.finish)

    async def settle(self) -> None:
        """Answer all pulls, and hold none any more."""
        self.waiters.close()
        await self.waiters.wait_none()

    def measures(self) -> Mapping[str, str]:
        """How many wait, and why others wait no longer."""
        return measures_of_waiters(self.waiters)

    def families(self) -> Iterable[Family]:
        """The same, as metrics."""
        return metrics_of_waiters(self.waiters)
