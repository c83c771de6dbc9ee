"""Replaying dead letters on trio, and the checks of its arguments for every surface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Unpack

from rocketpy.admin.dead_letters import DeadLetterReplay, DeadLetters
from rocketpy.client.arguments import check_dead_letters
from rocketpy.client.instance import MQClientInstance
from rocketpy.client.shared_client import check_shared
from rocketpy.consumer.listeners import is_async_listener
from rocketpy.errors import ConfigError
from rocketpy.message import MessageExt

if TYPE_CHECKING:
    from rocketpy.config.typed import ClientSettings
    from rocketpy.remoting.network import Network

__all__ = ["Wanted", "check_replay", "check_settings", "replay_dead_letters"]

Wanted = Callable[[MessageExt], object]
"""A function that tells whether to send a dead letter again. Its `topic` is the one that it would be sent to."""


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
    """Send the dead letters of a group to the topics that they came from, where all subscribers get them again.

    A replay reads the topic `%DLQ%` followed by the name of the group, from where the last replay ended up to the last
    message that is there when it starts, and commits after every few messages. Body, tags, keys, sharding key, unique
    id and your own properties stay as they were. The properties `RETRY_TOPIC` and `ORIGIN_MESSAGE_ID` tell a listener
    that a message was a dead letter.

    If a replay fails, is cancelled or is killed, start it again. If it fails or is cancelled, the log and a note of the
    exception say how many messages were sent, and how many are left. It sends a message a second time if it is unknown
    whether the first attempt succeeded; after a kill, or if the offset could not be committed, that may be up to 32
    messages. Run only one replay of a group at a time; a second one in the same process is refused.

    Args:
        group: the consumer group that gave the messages up.
        wanted: tells which of them to send; the others are skipped for good. All when None.
        limit: how many to send at most.
        dry_run: only count; send and commit nothing.
        client: a client to share; None for one that lasts as long as the replay.
        network: where a client of its own gets its connections.
        fields: settings of a client of its own, as in `ClientConfig`.

    Raises:
        ConfigError: an argument cannot be used, or another replay of the group runs in this process.
        TopicNotFoundError: no broker knows the group. One that merely has no dead letters is no error.
        NoPermissionError: the dead-letter topic is not readable; on brokers of 4.x give it permission 6 first.
        RocketMQError: a broker could not be asked, or a message could not be sent; what was done before is committed,
            if possible.
    """
    check_replay(group, limit, wanted)
    check_shared(client, network)
    check_settings(client, fields)
    async with AsyncExitStack() as stack:
        if client is None:
            client = await stack.enter_async_context(MQClientInstance(network=network, **fields))
        client.check_here()
        letters = DeadLetters(client, group, limit=limit, dry_run=dry_run)
        with letters.running():
            while batch := await letters.next_batch():
                await letters.settle(batch, [wanted is None or bool(wanted(message)) for message in batch])
        return letters.result()


def check_replay(group: object, limit: object, wanted: object = None) -> None:
    """Check the arguments of a replay.

    Raises:
        ConfigError: the group is not one, the limit is not a number of 1 or more, or `wanted` is not a plain function.
    """
    if wanted is not None and (not callable(wanted) or is_async_listener(wanted)):
        raise ConfigError(f"wanted must be a plain function of a message that answers at once, not {wanted!r:.100}")
    check_dead_letters(group, limit)


def check_settings(client: object, fields: Mapping[str, object]) -> None:
    """Refuse settings together with a shared client, which has its own.

    Raises:
        ConfigError: both were passed.
    """
    if client is not None and fields:
        names = ", ".join(sorted(fields))
        raise ConfigError(f"a shared client already has its own settings: leave out {names}, or leave out the client")
