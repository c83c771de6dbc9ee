"""Replaying dead letters, for asyncio. The user's filter is called in the loop of the caller."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Unpack

from rocketpy.admin.dead_letters import DeadLetters
from rocketpy.aio.client import MQClientInstance
from rocketpy.client.shared_client import check_shared, trio_client_of
from rocketpy.consumer.replay import check_replay, check_settings

if TYPE_CHECKING:
    from rocketpy.admin.dead_letters import DeadLetterReplay
    from rocketpy.config.typed import ClientSettings
    from rocketpy.consumer.replay import Wanted
    from rocketpy.remoting.network import Network

__all__ = ["replay_dead_letters"]


async def replay_dead_letters(
    group: str,
    *,
    wanted: Wanted | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    client: MQClientInstance | None = None,
    network: Network | None = None,
    **fields: Unpack[ClientSettings],
) -> DeadLetterReplay:
    """Send the dead letters of a group to the topics that they came from. See `rocketpy.replay_dead_letters`."""
    check_replay(group, limit, wanted)
    check_shared(trio_client_of(client, "rocketpy.aio"), network)
    check_settings(client, fields)
    async with AsyncExitStack() as stack:
        if client is None:
            client = await stack.enter_async_context(MQClientInstance(network=network, **fields))
        bridge = client._bridge
        bridge.check()
        letters = DeadLetters(client.trio_client, group, limit=limit, dry_run=dry_run)
        with letters.running():
            while batch := await bridge.call(letters.next_batch):
                chosen = [wanted is None or bool(wanted(message)) for message in batch]
                await bridge.call(letters.settle, batch, chosen)
        return letters.result()
