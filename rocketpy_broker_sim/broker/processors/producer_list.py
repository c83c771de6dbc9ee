"""The connected producers: GET_PRODUCER_CONNECTION_LIST and GET_ALL_PRODUCER_INFO. Plays a part of
AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio

from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.groups import ClientConnection, ProducerConnection, ProducerInfo
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.group import GetProducerConnectionListRequestHeader
from rocketpy.wire.lenient_json import write_json
from rocketpy_broker_sim.broker.processors.checks import check_group
from rocketpy_broker_sim.serving.encoding import append_parts, encode_steps, parts_of
from rocketpy_broker_sim.serving.slices import PAUSE

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import ProducersView
    from rocketpy_broker_sim.broker.tables.clients import ClientChannel
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["get_all_producers", "get_producer_connections"]


def get_producer_connections(broker: ProducersView, connection: Connection, request: RemotingCommand) -> Steps:
    """The clients of a producer group. A sliced processor."""
    group = check_group(GetProducerConnectionListRequestHeader.from_ext(request.ext_fields).producer_group)
    clients = broker.producers.clients(group)
    if not clients:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    found = ProducerConnection()
    for client in clients:
        told = ClientConnection(
            client_id=client.client_id,
            client_addr=client.channel.address,
            language=client.language,
            version=client.version,
        )
        found.connection_set.append(told)
        yield
    return request.answer(body=(yield from encode_steps(found)))


def get_all_producers(broker: ProducersView, connection: Connection, request: RemotingCommand) -> Steps:
    """The clients of all producer groups, by group. A sliced processor."""
    found, separator = bytearray(b'{"data":{'), b""
    for group in broker.producers.groups():
        infos = (_info(client) for client in broker.producers.clients(group))
        found += separator + write_json(group).encode() + b":"
        separator = b","
        yield from append_parts(found, b"[]", _json_of(infos))
    found += b"}}"
    yield PAUSE  # before all of it is copied
    return request.answer(body=bytes(found))


def _json_of(infos: Iterator[ProducerInfo]) -> Iterator[str]:
    return (write_json([info.to_json() for info in part]) for part in parts_of(infos))


def _info(client: ClientChannel) -> ProducerInfo:
    age = max(0.0, trio.current_time() - client.last_seen)
    return ProducerInfo(
        client_id=client.client_id,
        remote_ip=f"/{client.channel.address}",  # as Java writes addresses
        language=client.language,
        version=client.version,
        last_update_timestamp=wall_ms() - int(age * 1000),
    )
