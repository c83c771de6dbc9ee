"""Waits until name servers show a topic as brokers have it, and says in which form permissions are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

from rocketpy.errors import ConfigError, RequestTimeoutError, TopicNotFoundError
from rocketpy.remoting.backoff import FullJitter, retrying
from rocketpy.wire.sysflag import Permission

if TYPE_CHECKING:
    from rocketpy.admin.results.topics import TopicSettings
    from rocketpy.admin.servers import Servers
    from rocketpy.wire.bodies.route import QueueData

__all__ = ["PermissionText", "permission_bits", "permission_text", "wait_visible"]

PermissionText: TypeAlias = Literal["rw", "r", "w", ""]
"""What clients may do with a topic, which is to read, to write, both or nothing."""

_BITS = {"r": Permission.READ, "w": Permission.WRITE}
_visible = FullJitter(0.01, 0.5)


def permission_bits(permission: object) -> int:
    """A permission as brokers have it.

    Raises:
        ConfigError: there is no such permission.
    """
    if permission not in ("rw", "r", "w", ""):
        raise ConfigError(f"permission must be 'rw', 'r', 'w' or '', not {permission!r:.100}")
    return sum(_BITS[letter] for letter in str(permission))


def permission_text(permission: int) -> str:
    """A permission of a broker as text."""
    return "".join(letter for letter, bit in _BITS.items() if permission & bit)


async def wait_visible(servers: Servers, topic: str, made: Mapping[str, TopicSettings], done: str) -> None:
    """Wait until a name server shows a topic as it was created or changed.

    Args:
        servers: the servers.
        topic: the topic.
        made: its new settings by the addresses of the brokers.
        done: what was done, for the error.

    Raises:
        RequestTimeoutError: it is not shown in time.
    """

    enough = False

    async def look() -> None:
        nonlocal enough
        data = await servers.route(topic)
        masters = servers.masters_in(topic, data.broker_datas)
        shown = {masters[each.broker_name]: each for each in data.queue_datas if each.broker_name in masters}
        seen = [_shown(shown.get(address), wanted) for address, wanted in made.items()]
        enough = None not in seen
        if not all(seen):
            raise TopicNotFoundError(f"the name servers do not show {topic} yet", topic=topic)

    policy = retrying(attempts=1000, wait=_visible, worth_it=lambda error: isinstance(error, TopicNotFoundError))
    try:
        with trio.fail_after(servers.timeout):
            await policy(look)
    except trio.TooSlowError as exc:
        if enough:
            return
        raise RequestTimeoutError(
            f"the topic {topic} was {done}, but the name servers did not show this within {servers.timeout:g} s",
            timeout=servers.timeout,
        ) from exc


def _shown(shown: QueueData | None, wanted: TopicSettings) -> bool | None:
    """Whether a name server shows the settings: None if it does not, False if it shows them with fewer permissions.

    A name server shows fewer permissions for a broker that was made read-only.
    """
    if shown is None or (shown.read_queue_nums, shown.write_queue_nums) != (wanted.read_queues, wanted.write_queues):
        return None
    permission = permission_text(shown.perm)
    return True if permission == wanted.permission else False if set(permission) < set(wanted.permission) else None
