"""What the versions of brokers mean for a producer; each stands in the answer to a heartbeat.

Brokers of RocketMQ 5 can deliver a message at a given time. An older one stores such a message and delivers it at once,
without a word, so it is asked who it is first. One of RocketMQ 5 whose timer is off refuses by itself. Consumers of the
age of older brokers can unpack ZLIB only. Plays the part of no class of Java's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketpy.client.api import group as group_api
from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.wire.compression import CompressionType

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance

__all__ = ["BrokerVersions"]

logger = get_logger(__name__)

_FIRST: Final = 412
"""Ordinal of V5_0_0_SNAPSHOT, the first release with timers, and with more than one way to compress."""
_MAX_WARNED: Final = 4096


class BrokerVersions:
    """What one producer knows of the versions of its brokers.

    Args:
        client: that of the producer.
        compress_type: how the producer compresses.
    """

    def __init__(self, client: MQClientInstance, compress_type: CompressionType) -> None:
        self._client = client
        self._compress_type = compress_type
        self._warned: set[str] = set()
        self._warned_of_compression: set[str] = set()

    def open(self) -> None:
        """Warn, from now on, of brokers whose consumers may be too old to unpack what the producer compresses."""
        if self._compress_type is CompressionType.ZLIB:
            return
        heartbeats = self._client.heartbeats
        heartbeats.watchers.add(self._check_compression)
        for name, addresses in self._client.routes.brokers().items():
            for address in addresses.values():
                self._check_compression(name, address, heartbeats.versions.get(address, 0))

    def close(self) -> None:
        """Warn no more."""
        self._client.heartbeats.watchers.discard(self._check_compression)

    def _check_compression(self, broker_name: str, address: str, version: int) -> None:
        warned = self._warned_of_compression
        if not 0 < version < _FIRST or broker_name in warned or len(warned) >= _MAX_WARNED:
            return
        warned.add(broker_name)
        logger.warning(
            "broker %s at %s is older than RocketMQ 5, and consumers of its age cannot unpack %s: use "
            "compress_type='ZLIB', unless all consumers are of RocketMQ 5",
            broker_name,
            address,
            self._compress_type.name,
        )

    def can_time(self, address: str) -> bool:
        """Whether the broker there is known to deliver at a time. Any thread."""
        return self._client.heartbeats.versions.get(address, 0) >= _FIRST

    async def check_timing(self, broker_name: str, address: str, *, timeout: float) -> None:
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
                "broker %s at %s does not report its version: if it is older than RocketMQ 5, it ignores delay and "
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
