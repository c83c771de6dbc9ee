"""Messages found by key, by unique id, and by their place in the log: QUERY_MESSAGE and VIEW_MESSAGE_BY_ID.

A key is looked for by its hash, so that the answer may hold messages with other keys too: clients look again, as with
Apache's broker. Plays the part of QueryMessageProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.query import QueryMessageRequestHeader, QueryMessageResponseHeader, ViewMessageRequestHeader

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import QueryView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["query_message", "view_message"]

LONGEST_KEY = 32_767
"""Characters of a key that a message can have: its properties have no room for more."""
_NOWHERE = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
_NOTHING = "can not find message, maybe time range not correct"


def query_message(broker: QueryView, connection: Connection, request: RemotingCommand) -> Steps:
    """The messages of a topic with a key or a unique id, stored within a span of time; looked for in slices."""
    header = QueryMessageRequestHeader.from_ext(request.ext_fields)
    if len(header.key) > LONGEST_KEY:
        return request.answer(ResponseCode.QUERY_NOT_FOUND, _NOTHING, ext_fields=_NOWHERE)
    most = broker.config.store.default_query_max_num if header.unique_key_query else header.max_num
    begin, end = header.begin_timestamp, header.end_timestamp
    found = yield from broker.keys.query_steps(header.topic, header.key, most, begin, end)
    answer = QueryMessageResponseHeader(
        index_last_update_timestamp=found.last_timestamp, index_last_update_phyoffset=found.last_position
    ).to_ext()
    if not found.records:
        return request.answer(ResponseCode.QUERY_NOT_FOUND, _NOTHING, ext_fields=answer)
    # Each copy of up to 15 MiB is a step of its own.
    yield
    body = b"".join(found.records)
    yield
    return request.answer(ext_fields=answer, body=body)


def view_message(broker: QueryView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The message whose record begins at a position of the log."""
    header = ViewMessageRequestHeader.from_ext(request.ext_fields)
    record = broker.reads.read(header.offset)
    if record is None:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
    return request.answer(body=record)
