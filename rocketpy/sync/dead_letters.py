"""Replaying dead letters, for blocking code. The user's filter is called in the thread of the caller."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Unpack

from rocketpy.admin.dead_letters import DeadLetters
from rocketpy.client.shared_client import check_shared, trio_client_of
from rocketpy.consumer.replay import check_replay, check_settings
from rocketpy.sync.client import MQClientInstance

if TYPE_CHECKING:
    from rocketpy.admin.dead_letters import DeadLetterReplay
    from rocketpy.config.typed import ClientSettings
    from rocketpy.consumer.replay import Wanted
    from rocketpy.remoting.network import Network

__all__ = ["replay_dead_letters"]


def replay_dead_letters(
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
    check_shared(trio_client_of(client, "rocketpy.sync"), network)
    check_settings(client, fields)
    with ExitStack() as stack:
        if client is None:
            client = stack.enter_context(MQClientInstance(network=network, **fields))
        portal = client._portal
        letters = DeadLetters(client.trio_client, group, limit=limit, dry_run=dry_run)
        with letters.running():
            while batch := portal.call(letters.next_batch):
                portal.call(letters.settle, batch, [wanted is None or bool(wanted(message)) for message in batch])
        return letters.result()
