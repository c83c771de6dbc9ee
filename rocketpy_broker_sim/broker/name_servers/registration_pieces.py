"""What a broker tells a name server of its topics, cut into requests that neither side takes long over.

All topics travel in one request while they are few, else in pieces, as Apache's broker sends them with
`enableSplitRegistration`. An extension field that Apache's name server ignores tells ours which piece it is, so that it
can forget topics that no piece holds. Plays the part of registerBrokerAll in BrokerOuterAPI.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterable, Sequence
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING

from rocketpy.wire.bodies.registration import PIECE_FIELD, Piece, encode_steps
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.route import RegisterBrokerRequestHeader

if TYPE_CHECKING:
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["MOST_AT_ONCE", "RegistrationRequests", "cut", "provisional"]

MOST_AT_ONCE = 5000
"""Topics in one request. More than these come in pieces although the settings do not ask for it: a name server could
not take them in one, or would take long."""
_READ_WRITE = 6


def cut(names: Sequence[str], size: int) -> list[Sequence[str]]:
    """Cut names into pieces of about `size`, all of nearly the same length.

    Never into a piece of one: a name server takes a single topic for the change of one, which it refuses of a broker
    that it does not know.
    """
    count = max(1, min(-(-len(names) // size), len(names) // 2))
    ends = [len(names) * n // count for n in range(count + 1)]
    return [names[begin:end] for begin, end in pairwise(ends)]


class RegistrationRequests:
    """Makes the requests of one broker.

    Args:
        config: its settings.
        address: what clients are to dial, "host:port".
    """

    def __init__(self, config: BrokerConfig, address: str) -> None:
        self._config = config
        self._address = address

    def pieces(self, names: Sequence[str]) -> list[Sequence[str]]:
        """The topics of each request when all are registered."""
        config = self._config
        if not config.enable_split_registration and len(names) <= MOST_AT_ONCE:
            return [names]
        return cut(names, max(2, min(config.split_registration_size, MOST_AT_ONCE)))

    def request(
        self,
        names: Iterable[str],
        topic_of: Callable[[str], TopicConfig | None],
        version: DataVersion,
        piece: Piece,
    ) -> Generator[None, None, RemotingCommand]:
        """One request, made in steps.

        Args:
            names: its topics; those that are gone when their turn comes are left out.
            topic_of: finds a topic.
            version: the state of the table that it carries.
            piece: which part of a registration it is.
        """
        config = self._config
        topics = (self._advertised(topic) for topic in map(topic_of, names) if topic is not None)
        body = yield from encode_steps(topics, version, compressed=config.compressed_register)
        host, _, port = self._address.rpartition(":")
        acting = config.enable_slave_acting_master
        header = RegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=f"{host}:{int(port) + 1}",
            broker_id=config.broker_id,
            heartbeat_timeout_millis=config.broker_not_active_timeout_millis if acting else None,
            enable_acting_master=acting,
            compressed=config.compressed_register,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        fields = {**header.to_ext(), PIECE_FIELD: piece.to_text()}
        return RemotingCommand(RequestCode.REGISTER_BROKER, fields, body=body)

    def _advertised(self, topic: TopicConfig) -> TopicConfig:
        """The topic with no more permissions than the broker itself has."""
        permission = self._config.broker_permission
        if permission & _READ_WRITE == _READ_WRITE:
            return topic
        advertised = copy(topic)
        advertised.perm &= permission
        return advertised


def provisional(version: DataVersion, piece: Piece) -> DataVersion:
    """The version that a piece carries before the last one.

    A name server that has heard half of a registration must not think that it knows this state, and takes over what
    changed only with a version that it has not seen. No table ever gets a count below zero.
    """
    return DataVersion(
        state_version=version.state_version, timestamp=version.timestamp, counter=-1 - (piece.index or 0)
    )
