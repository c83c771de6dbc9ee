"""A broker over memory streams and a raw client of it: what most tests here stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from trio.testing import wait_all_tasks_blocked

from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network
from rocketpy.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketpy.wire.bodies.subscription import build
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.hosts import parse_address
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.sysflag import PullSysFlag
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.readers import Hear
from rocketpy_broker_sim.config import BrokerConfig, broker_config
from rocketpy_broker_sim.store.disk.memory import MemoryStorage

SUSPEND = PullSysFlag.SUSPEND
SUBSCRIPTION = PullSysFlag.SUBSCRIPTION
COMMIT = PullSysFlag.COMMIT_OFFSET


def settings(**changes: Any) -> BrokerConfig:
    """Settings of a small broker on any port."""
    small = {"mapped_file_size_commit_log": 1 << 20, "max_hash_slot_num": 100, "max_index_num": 1000}
    return broker_config(**{"listen_port": 0, **small, **changes})


class Client:
    """A raw client: one connection, typed requests."""

    def __init__(self, connection: Connection, received: list[RemotingCommand]) -> None:
        self.connection = connection
        self.received = received
        """Requests that the broker sent."""

    async def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **more: Any
    ) -> RemotingCommand:
        command = RemotingCommand(code, ext or {}, body, **more)
        return await self.connection.request(command, timeout=60)

    async def send(self, topic: str = "T", body: bytes = b"x", properties: str = "", **fields: Any) -> RemotingCommand:
        return await self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(topic, properties, **fields), body)

    async def pull(self, topic: str = "T", queue: int = 0, offset: int = 0, **fields: Any) -> RemotingCommand:
        return await self.ask(RequestCode.PULL_MESSAGE, pull_fields(topic, queue, offset, **fields))

    async def heartbeat(self, group: str = "g", *topics: str, **more: Any) -> RemotingCommand:
        return await self.ask(RequestCode.HEART_BEAT, body=heartbeat(group, *topics, **more).encode())


def send_fields(topic: str, properties: str = "", **fields: Any) -> dict[str, str]:
    values: dict[str, Any] = {
        "producer_group": "p",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1,
        "flag": 0,
        "properties": properties,
        "reconsume_times": 0,
        **fields,
    }
    return SendMessageRequestHeader(**values).to_short_ext()


def pull_fields(topic: str, queue: int, offset: int, **fields: Any) -> dict[str, str]:
    values: dict[str, Any] = {
        "consumer_group": "g",
        "topic": topic,
        "queue_id": queue,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": SUBSCRIPTION,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "subscription": "*",
        "sub_version": 0,
        "expression_type": "TAG",
        **fields,
    }
    return PullMessageRequestHeader(**values).to_ext()


def heartbeat(
    group: str = "g", *topics: str, client_id: str = "c1", tags: str = "*", producer: str = "p", **more: Any
) -> HeartbeatData:
    consumer = ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=more.pop("model", MessageModel.CLUSTERING),
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        subscription_data_set=[build(topic, tags) for topic in topics],
    )
    return HeartbeatData(
        client_id=client_id,
        producer_data_set=[ProducerData(group_name=producer)],
        consumer_data_set=[consumer],
        **more,
    )


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [message.body for message in decode_messages(answer.body)]


@asynccontextmanager
async def client_of(network: Network, address: str) -> AsyncIterator[Client]:
    received: list[RemotingCommand] = []

    def note(connection: Connection, request: RemotingCommand) -> None:
        received.append(request)

    host, port = parse_address(address)
    stream = await network.open_stream(host, port)
    async with open_connection(stream, RequestDispatcher({}, note), address=address) as connection:
        yield Client(connection, received)


@asynccontextmanager
async def broker_and_client(
    network: MemoryNetwork | None = None,
    storage: MemoryStorage | None = None,
    hear: Sequence[Hear] = (),
    **changes: Any,
) -> AsyncIterator[tuple[Broker, Client]]:
    network, storage = network or MemoryNetwork(), storage or MemoryStorage()
    async with open_broker(settings(**changes), network=network, storage=storage, hear=hear) as broker:
        async with client_of(network, broker.address) as client:
            yield broker, client
        await wait_all_tasks_blocked()
        if broker.server is not None and not broker.server.connections:
            assert broker.memory.kinds() == {}, "something still counts for connections that have closed"
    assert broker.memory.kinds() == {}, "something still counts though the broker has stopped"
