"""Clients of an embedded cluster, for its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import rocketpy
from rocketpy import MessageExt
from rocketpy_broker_sim import LocalCluster

__all__ = ["consumer", "nothing", "reach"]


def reach(cluster: LocalCluster) -> dict[str, Any]:
    return {"namesrv": cluster.name_server_addresses, "network": cluster.network}


@asynccontextmanager
async def consumer(cluster: LocalCluster, listener: Any, **settings: Any) -> AsyncIterator[rocketpy.PushConsumer]:
    async with rocketpy.PushConsumer("billing", **reach(cluster), **settings) as made:
        made.subscribe("Orders", listener)
        yield made


async def nothing(message: MessageExt) -> None:
    pass
