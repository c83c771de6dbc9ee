"""Which brokers can deliver a message at a given time: those of RocketMQ 5.

An older broker stores such a message and delivers it at once, without a word. So it is asked who it is first: its
version stands in the answer to a heartbeat. One of RocketMQ 5 whose timer is off refuses by itself. Plays the part of
no class of Java's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketpy.client.api import group as group_api
from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance

__all__ = ["DeliveryTimes"]

logger = get_logger(__name__)

_FIRST: Final = 412
"""Ordinal of V5_0_0_SNAPSHOT, the first release with timers."""
_MAX_WARNED: Final = 4096


class DeliveryTimes:
    """What one producer knows of its brokers."""

    def __init__(self, client: MQClientInstance) -> None:
        self._client = client
        self._warned: set[str] = set()

    def are_known_at(self, address: str) -> bool:
        """Whether the broker there is known to deliver at a time. Any thread."""
        return self._client.heartbeats.versions.get(address, 0) >= _FIRST

    async def check(self, broker_name: str, address: str, *, timeout: float) -> None:
        """Ask a broker for its version, unless it has said so already. Warns once where it does not say it.

        Raises:
            ConfigError: the broker would deliver at once; nothing was sent.
        """
        versions = self._client.heartbeats.versions
        if not versions.get(address):
            await self._ask(address, timeout)
        version = versions.get(address)
        if version and version < _FIRST:
            raise ConfigError(
                f"the broker {broker_name} at {address} is older than RocketMQ 5 and would deliver the message at "
                "once: nothing was sent; use delay_level instead of delay and deliver_at there, or update the broker"
            )
        if not version and address not in self._warned and len(self._warned) < _MAX_WARNED:
            self._warned.add(address)
            logger.warning(
                "broker %s at %s does not tell its version: if it is older than RocketMQ 5 it ignores delay and "
                "deliver_at and delivers at once",
                broker_name,
                address,
            )

    async def _ask(self, address: str, timeout: float) -> None:
        client = self._client
        data = client.roles.heartbeat(client.client_id)
        if data is None:
            return
        try:
            version = await group_api.heartbeat(client.pool, address, data, timeout=max(0.001, timeout))
        except RocketMQError as error:
            logger.debug("broker %s was asked for its version: %s", address, error)
        else:
            client.heartbeats.versions[address] = version
