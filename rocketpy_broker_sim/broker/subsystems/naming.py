"""Being known to the name servers, as a part of the broker. `registration` tells them; this says when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.remoting.pool import ConnectionPool
from rocketpy_broker_sim.broker.metrics.parts import metrics_of_naming
from rocketpy_broker_sim.broker.name_servers.registration import Registration
from rocketpy_broker_sim.broker.subsystem import Subsystem

if TYPE_CHECKING:
    from rocketpy.remoting.network import Network
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family

__all__ = ["Naming"]

GOODBYE_WITHIN = 1.0
"""Seconds that the name servers get to hear that the broker stops: one that hangs must not hold up the end."""


class Naming(Subsystem):
    """Registers the broker once it serves, and takes it off before it stops.

    Args:
        config: the settings.
        network: where name servers are dialled.
        topics: what is registered.
        name_servers: their addresses.
        address: says what clients dial; asked when it opens.

    Attributes:
        registration: What tells them; None until it opens.
    """

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        topics: TopicTable,
        name_servers: Sequence[str],
        address: Callable[[], str],
    ) -> None:
        self.registration: Registration | None = None
        self._config = config
        self._network = network
        self._topics = topics
        self._name_servers = name_servers
        self._address = address
        self._is_leaving = False
        topics.subscribe(self._topics_changed)

    def _topics_changed(self, names: list[str]) -> None:
        if self.registration is not None:
            self.registration.topics_changed(names)

    def announce(self, topic: str, done: Callable[[], object]) -> None:
        """Call a function once the name servers know a topic; at once before it opens."""
        if self.registration is None:
            done()
        else:
            self.registration.when_announced(topic, done)

    async def open(self, services: trio.Nursery) -> None:
        """Register; return once a name server knows the broker, or none is left that might."""
        await services.start(self._serve)

    @trio.lowlevel.enable_ki_protection
    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        async with ConnectionPool(self._network).open() as pool:
            registration = Registration(self._config, self._address(), self._topics, pool, self._name_servers)
            self.registration = registration
            await registration.serve(task_status=task_status)
            await trio.sleep_forever()  # it has stopped, and unregisters over the pool

    async def leave(self) -> None:
        """Have the broker taken off by all name servers, so that clients go elsewhere."""
        self._is_leaving = True
        with trio.move_on_after(GOODBYE_WITHIN, shield=True):
            if self.registration is not None:
                await self.registration.unregister()

    def families(self) -> Iterable[Family]:
        """How many name servers know the broker."""
        return metrics_of_naming(len(self._name_servers), len(self._known()))

    def problems(self) -> Iterable[str]:
        """Whether clients can find the broker."""
        if self._is_leaving:
            yield "the broker shuts down"
        elif self._name_servers and not self._known():
            yield f"the broker is registered with none of its name servers: {', '.join(self._name_servers)}"

    def _known(self) -> Sequence[str]:
        return self.registration.registered_with if self.registration is not None else ()
