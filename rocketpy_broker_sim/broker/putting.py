"""Around every put: the addresses that a record carries, and what a producer is told when a put is refused."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.hosts import pack_host
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["packed_address", "refusal_of"]

_NOWHERE = bytes(8)


@lru_cache(maxsize=4096)
def packed_address(address: str) -> bytes:
    """ "host:port" as records carry it; an address that is none of IP's (a pipe in memory) is all zeros."""
    host, _, port = address.rpartition(":")
    try:
        return pack_host(host.strip("[]"), int(port))
    except (ConfigError, ValueError):
        return _NOWHERE


def refusal_of(status: PutMessageStatus, config: BrokerConfig) -> tuple[ResponseCode, str]:
    """Code and words for a put that was not done."""
    if status in (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED):
        limit = config.store.max_message_size
        return (
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message is illegal: a body has 1 to {limit} bytes, properties at most 32767 bytes",
        )
    if status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
        return (
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "the broker cannot store messages now: its disk is full or broken, or it is shutting down",
        )
    if status is PutMessageStatus.OS_PAGE_CACHE_BUSY:
        return (
            ResponseCode.SYSTEM_BUSY,
            "[PC_SYNCHRONIZED]broker busy, slow down for a while: writing to the page cache takes too long",
        )
    if status is PutMessageStatus.TOO_MANY_WAIT:
        return (
            ResponseCode.SYSTEM_BUSY,
            "[OVERLOAD]broker busy, slow down for a while: too many sends wait for the disk",
        )
    return ResponseCode.SYSTEM_ERROR, f"the message was not stored: {status.name}"
