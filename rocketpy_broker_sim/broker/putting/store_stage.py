"""The last stage of the put pipeline, and what is around every put: addresses of records, words for refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.hosts import pack_host
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.putting.put_pipeline import step
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.putting.put_pipeline import Put
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageResult

__all__ = ["StoreStage", "packed_address", "refusal_of"]

_NOWHERE = bytes(8)


@lru_cache(maxsize=4096)
def packed_address(address: str) -> bytes:
    """ "host:port" as records carry it; an address that is none of IP's (a pipe in memory) is all zeros."""
    host, _, port = address.rpartition(":")
    try:
        return pack_host(host.strip("[]"), int(port))
    except (ConfigError, ValueError):
        return _NOWHERE


class StoreStage:
    """Gives messages their place in queue and log; the turn writes them.

    Args:
        place: gives one message its place; says whether its answer has to wait for the disk.
        config: the settings.
    """

    watches = frozenset[str]()

    def __init__(self, place: Callable[[IncomingMessage, bool], PutMessageResult], config: BrokerConfig) -> None:
        self._place = place
        self._config = config

    def take(self, puts: Sequence[Put]) -> None:
        """Place a run."""
        step(puts, self._take)

    def _take(self, put: Put) -> None:
        assert put.message is not None
        if put.properties is not None:
            put.message.properties = encode_properties(put.properties)
        put.result = result = self._place(put.message, put.wait)
        if result.status is not PutMessageStatus.PUT_OK:
            put.refusal = refusal_of(result.status, self._config)


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
    if status is PutMessageStatus.TOO_MANY_QUEUES:
        return (
            ResponseCode.SYSTEM_ERROR,
            f"the broker has as many queues with messages as it may ({config.store.max_queues}), and this message needs"
            " another: delete topics that are not needed, or raise maxQueues",
        )
    return ResponseCode.SYSTEM_ERROR, f"the message was not stored: {status.name}"
