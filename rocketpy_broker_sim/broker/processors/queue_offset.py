"""The ends of a queue and what lies at a time: GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP and
GET_EARLIEST_MSG_STORETIME. Plays the part of these methods of AdminBrokerProcessor.

An unknown queue is an empty one, as with Apache's broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.wire.enums import BoundaryType
from rocketpy.wire.headers.offset import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    SearchOffsetRequestHeader,
)
from rocketpy_broker_sim.broker.processors.checks import check_topic

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import QueueView

__all__ = ["get_earliest_store_time", "get_max_offset", "get_min_offset", "search_offset"]


def get_max_offset(broker: QueueView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The offset that the next message of a queue gets."""
    header = GetMaxOffsetRequestHeader.from_ext(request.ext_fields)
    offset = broker.reads.max_offset(check_topic(header.topic), header.queue_id)
    return request.answer(ext_fields={"offset": str(offset)})


def get_min_offset(broker: QueueView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The offset of the oldest message of a queue."""
    header = GetMinOffsetRequestHeader.from_ext(request.ext_fields)
    offset = broker.reads.min_offset(check_topic(header.topic), header.queue_id)
    return request.answer(ext_fields={"offset": str(offset)})


def search_offset(broker: QueueView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The offset that belongs to a store time."""
    header = SearchOffsetRequestHeader.from_ext(request.ext_fields)
    boundary = header.boundary_type or BoundaryType.LOWER
    offset = broker.reads.offset_by_time(check_topic(header.topic), header.queue_id, header.timestamp, boundary)
    return request.answer(ext_fields={"offset": str(offset)})


def get_earliest_store_time(broker: QueueView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """When the oldest message of a queue was stored, -1 when there is none."""
    header = GetEarliestMsgStoretimeRequestHeader.from_ext(request.ext_fields)
    timestamp = broker.reads.earliest_store_time(check_topic(header.topic), header.queue_id)
    return request.answer(ext_fields={"timestamp": str(timestamp)})
