"""Replaying dead letters, on trio, and what a replay may be told on every surface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.sharing import check_shared
from rocketpy.consumer.dead_letters import DeadLetterReplay, DeadLetters
from rocketpy.consumer.listeners import is_async_listener
from rocketpy.errors import ConfigError
from rocketpy.message import MessageExt
from rocketpy.wire.names import DLQ_PREFIX, RETRY_PREFIX, check_group

if TYPE_CHECKING:
    from rocketpy.remoting.network import Network

__all__ = ["Wanted", "check_replay", "check_settings", "replay_dead_letters"]

Wanted = Callable[[MessageExt], object]
"""Says of a dead letter whether it is to be sent again; its topic is the one to which it would go."""


async def replay_dead_letters(
    group: str,
    *,
    wanted: Wanted | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    client: MQClientInstance | None = None,
    network: Network | None = None,
    **fields: Any,
) -> DeadLetterReplay:
    """Send the dead letters of a group to the topics that they came from, for all who subscribe those to get again.

    They are read from `%DLQ%` and the name of the group, from where the last replay ended, up to what has died by now,
    and committed after every few. Body, tags, keys, sharding key, unique id and the user's own properties stay as they
    were; `RETRY_TOPIC` and `ORIGIN_MESSAGE_ID` among the properties tell a listener that it has such a message.

    A replay that fails, is cancelled or killed is simply started again. It sends a message a second time when nobody
    knows whether the first time succeeded; after a kill that may be 32 of them. Start one at a time.

    Args:
        group: the consumer group that gave the messages up.
        wanted: which of them; what it does not want is passed over for good. All when None.
        limit: how many to send at most.
        dry_run: count, and neither send nor commit.
        client: a client to share; without it there is one for the time of the replay.
        network: where connections come from, for a client of its own.
        fields: settings of a client of its own, as in `ClientConfig`.

    Raises:
        ConfigError: an argument cannot be used.
        NoPermissionError: the dead letters may not be read; brokers of 4.x have to give their topic the permission 6.
        RocketMQError: a broker could not be asked, or a message not be sent; what was done before is committed.
    """
    check_replay(group, limit, wanted)
    check_shared(client, network)
    check_settings(client, fields)
    async with AsyncExitStack() as stack:
        if client is None:
            client = await stack.enter_async_context(MQClientInstance(network=network, **fields))
        client.check_here()
        letters = DeadLetters(client, group, limit=limit, dry_run=dry_run)
        while batch := await letters.next_batch():
            await letters.settle(batch, [wanted is None or bool(wanted(message)) for message in batch])
        return letters.result()


def check_replay(group: object, limit: object, wanted: object = None) -> None:
    """Refuse what no replay can do.

    Raises:
        ConfigError: the group is none, the limit is not a number from 1 on, or what is wanted is no plain function.
    """
    if wanted is not None and (not callable(wanted) or is_async_listener(wanted)):
        raise ConfigError(f"wanted must be a plain function of a message that answers at once, not {wanted!r:.100}")
    if not isinstance(group, str):
        raise ConfigError(f"the group must be a name, not {group!r:.100}")
    check_group(group)
    if group.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        raise ConfigError(f"the group must be named itself, not a topic of it: leave out the beginning of {group!r}")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise ConfigError(f"limit must be a number from 1 on, or None for all dead letters, not {limit!r:.100}")


def check_settings(client: object, fields: Mapping[str, object]) -> None:
    """Refuse settings beside a client that is shared.

    Raises:
        ConfigError: there are both.
    """
    if client is not None and fields:
        names = ", ".join(sorted(fields))
        raise ConfigError(f"a client that is shared has its settings already: leave out {names}, or the client")
