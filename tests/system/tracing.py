"""What stands on the topic of traces of a cluster in memory."""

from __future__ import annotations

from rocketpy.message import MessageExt
from rocketpy.trace import TraceRecord, decode_traces
from tests.system.consuming import World

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


async def trace_messages(w: World, topic: str = TRACE_TOPIC) -> list[MessageExt]:
    """The messages of the topic."""
    found = []
    async with w.puller("tracereader") as puller:
        for queue in await puller.fetch_message_queues(topic):
            offset = await puller.beginning_offset(queue)
            while offset < await puller.end_offset(queue):
                result = await puller.pull(queue, offset)
                found += result.messages
                offset = result.next_begin_offset
    return found


async def traces(w: World, topic: str = TRACE_TOPIC) -> list[TraceRecord]:
    """The records in them."""
    return [record for message in await trace_messages(w, topic) for record in decode_traces(message.body)]
