"""A broker with timers in virtual time, and an observer of when its messages can be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from rocketpy.message import MessageExt
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.send import RecallMessageRequestHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.recall_handle import RecallHandle
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.put_result import Arrival
from tests.broker_sim.broker.kit import Client, broker_and_client

EPOCH = 1_800_000_000_000


class Timed:
    """A broker and a client of it.

    Attributes:
        arrived: When each message of a topic could be read, in seconds of the loop, by topic.
    """

    def __init__(self, broker: Broker, client: Client, arrived: dict[str, list[float]]) -> None:
        self.broker = broker
        self.client = client
        self.arrived = arrived

    async def send(
        self, topic: str = "T", body: bytes = b"x", unique: str = "U1", **properties: str
    ) -> RemotingCommand:
        text = encode_properties({"UNIQ_KEY": unique, **properties})
        return await self.client.send(topic, body, text)

    async def send_at(self, moment: int, topic: str = "T", unique: str = "U1") -> str:
        """Send a message that is due at a time, ms since 1970. Returns its recall handle."""
        answer = await self.send(topic, unique=unique, TIMER_DELIVER_MS=str(moment))
        assert answer.code == 0, answer.remark
        return answer.ext_fields["recallHandle"]

    async def recall(self, handle: str, topic: str = "T") -> RemotingCommand:
        header = RecallMessageRequestHeader(producer_group="p", topic=topic, recall_handle=handle)
        return await self.client.ask(RequestCode.RECALL_MESSAGE, header.to_ext())

    def messages(self, topic: str = "T", queue_id: int = 0) -> list[MessageExt]:
        found: list[MessageExt] = []
        while more := decode_messages(self.broker.store.reads.get(topic, queue_id, len(found), 32).records):
            found += more
        return found

    def bodies(self, topic: str = "T") -> list[bytes]:
        return [message.body for message in self.messages(topic)]


@asynccontextmanager
async def timed(storage: MemoryStorage | None = None, **settings: object) -> AsyncIterator[Timed]:
    changes = {"mapped_file_size_timer_log": 5200, "recall_message_enable": True, **settings}
    arrived: dict[str, list[float]] = {}

    def note(arrival: Arrival) -> None:
        arrived.setdefault(arrival.topic, []).extend([trio.current_time()] * len(arrival.tags_codes))

    async with broker_and_client(storage=storage, hear=[note], **changes) as (broker, client):
        yield Timed(broker, client, arrived)


def wall() -> int:
    return wall_ms()


def handle(topic: str = "T", broker: str = "broker-a", due: str = "", unique: str = "U1") -> str:
    return RecallHandle(topic, broker, due or str(wall_ms() + 5000), unique).encode()
