"""Subsystem: what the parts of a broker have in common. Each is recovered, opened, run, settled, left and closed.

A broker is a list of subsystems. `opening` goes through the list from the first to the last when it starts, and from
the last to the first when it stops; it knows none of them by name. A new kind of business (POP, transactions, a
replica) is a new subsystem in the list and not a new line in every step of the start. Has no counterpart in Java, where
BrokerController names each part in each step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

    from rocketpy_broker_sim.broker.tables.persist import StoredTable
    from rocketpy_broker_sim.metrics.metric import Family

__all__ = ["Service", "Subsystem"]

Service = Callable[[], Awaitable[None]]
"""An async function that runs until it is cancelled."""


class Subsystem:
    """A part of a broker. Every step does nothing here; a part overrides the steps in which it has something to do.

    At the start every part recovers, then every part opens. At the stop every part leaves, then the services of all
    are cancelled, then every part closes. When a part fails to recover, those before it give back what they took. A
    broker that is killed abandons its parts in place of leaving and closing them.
    """

    # --- the start ---

    def recover(self) -> None:
        """Read what the storage has. Blocking; in a thread.

        Raises:
            StoreError: it cannot be read, or belongs to another broker.
        """

    def give_back(self) -> None:
        """A part behind this one could not recover: release what `recover` took. Blocking; in a thread."""

    async def open(self, services: trio.Nursery) -> None:
        """Begin to work: return when the parts behind this one may open.

        Args:
            services: runs tasks until the broker stops; gets those of `run`.
        """
        for service in self.run():
            services.start_soon(service)

    def run(self) -> Iterable[Service]:
        """The services of this part, each of which runs from the opening to the stop."""
        return ()

    # --- the stop ---

    async def settle(self) -> None:
        """Answer all that waits, and let nothing wait from now on: the last answers are about to leave.

        Cancelled when it takes too long; what waits then is not answered.
        """

    async def leave(self) -> None:
        """Unregister from peers. Bounded in time whatever they do; services and the other parts still run."""

    async def close(self) -> None:
        """Bring to the disk what is left. No service runs any more and nobody asks anything."""

    def abandon(self) -> None:
        """End as it stands, as a process that is killed does: nothing more is said or written."""

    # --- what it has ---

    def persists(self) -> Iterable[StoredTable]:
        """The tables that are to be written soon after they have changed, and at the stop.

        What needs an order of its own (delivered delays after the messages they pass, the store itself) is not among
        them: its part writes it in `run` and in `close`.
        """
        return ()

    def measures(self) -> Mapping[str, str]:
        """What it has done and holds, under the keys of GET_BROKER_RUNTIME_INFO."""
        return {}

    def families(self) -> Iterable[Family]:
        """What it has done and holds, as metrics. Samples are made while a scrape is answered."""
        return ()

    def problems(self) -> Iterable[str]:
        """Why a probe should hold the broker for not ready, in words; nothing when all is well."""
        return ()
