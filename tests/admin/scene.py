"""A cluster in memory with an Admin beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs

from rocketpy import Admin
from tests.system.consuming import World, world

__all__ = ["Scene", "scene"]


@attrs.define
class Scene:
    """A world, and what administers it."""

    world: World
    admin: Admin

    def down(self, number: int) -> None:
        """A broker is down, and the name servers have not noticed it yet."""
        address = self.world.cluster.brokers[number].address
        self.world.cluster.network.cut(address)
        self.world.cluster.network.refuse(address)

    def up(self, number: int) -> None:
        """It is back."""
        self.world.cluster.network.heal(self.world.cluster.brokers[number].address)


@asynccontextmanager
async def scene(
    brokers: int = 1, *, topics: Iterable[str] = ("Orders",), queues: int = 4, **settings: Any
) -> AsyncIterator[Scene]:
    """A cluster with some topics."""
    async with world(brokers, topics=topics, queues=queues, **settings) as w:
        where = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
        async with Admin(request_timeout=2, **where) as admin:
            yield Scene(w, admin)
