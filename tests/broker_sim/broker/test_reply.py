"""Replies of consumers: the broker pushes them to the client that made the request, stores them, and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.message import PropertyName
from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.heartbeat import HeartbeatData, ProducerData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.send import ReplyMessageRequestHeader, SendMessageRequestHeader
from rocketpy.wire.hosts import parse_address
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import decode_properties
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, client_of, send_fields, settings

TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = "MSG_TYPE\x01reply\x02CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01asker\x02TTL\x013000\x02"
Answer = Callable[[RemotingCommand], RemotingCommand | None]


def accept(request: RemotingCommand) -> RemotingCommand:
    return request.answer()


def hang(request: RemotingCommand) -> None:
    return None


@asynccontextmanager
async def asker(
    network: MemoryNetwork, broker: Broker, answer: Answer = accept, client_id: str = "asker", group: str = "askers"
) -> AsyncIterator[Client]:
    """A producer that the broker knows, and the replies that are pushed to it."""
    received: list[RemotingCommand] = []

    def pushed(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        received.append(request)
        return answer(request)

    stream = await network.open_stream(*parse_address(broker.address))
    async with open_connection(stream, RequestDispatcher({}, pushed), address=broker.address) as connection:
        client = Client(connection, received)
        known = HeartbeatData(client_id=client_id, producer_data_set=[ProducerData(group_name=group)])
        assert (await client.ask(RequestCode.HEART_BEAT, body=known.encode())).code == 0
        yield client


async def reply(client: Client, properties: str = REPLY, body: bytes = b"yes", **fields: Any) -> RemotingCommand:
    fields = send_fields(fields.pop("topic", TOPIC), properties, **fields)
    return await client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, fields, body)


async def stored(client: Client) -> list[Any]:
    """The messages of the reply topic."""
    answer = await client.pull(TOPIC, suspend_timeout_millis=0, sys_flag=4)
    return decode_messages(answer.body)


# --- to the client that asked ------------------------------------------------------------------------------


async def test_K6_a_reply_is_pushed_to_the_client_that_asked_and_stored(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with (
        broker_and_client(network) as (broker, replier),
        asker(network, broker, client_id="another") as other,
        asker(network, broker) as asked,
    ):
        answer = await reply(replier, queue_id=0, flag=7, sys_flag=0x301)
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
        [message] = await stored(replier)
        assert answer.ext_fields["msgId"] == message.offset_message_id
        assert answer.ext_fields["queueOffset"] == "0"
        assert message.flag == 7
        assert message.sys_flag & 0x701 == 0x301, "a body that is compressed is stored with what says so"

        assert other.received == []
        [request] = asked.received
        assert (request.code, request.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"yes")
        header = ReplyMessageRequestHeader.from_ext(request.ext_fields)
        assert (header.topic, header.producer_group, header.flag, header.sys_flag) == (TOPIC, "p", 7, 0x301)
        assert header.born_host == replier.connection.local_address
        assert header.store_host == broker.address
        properties = decode_properties(header.properties or "")
        assert properties.pop(PropertyName.PUSH_REPLY_TIME).isdigit()
        assert properties == decode_properties(REPLY) | {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        assert decode_properties(REPLY).items() <= message.wire_properties.items()
        assert broker.runtime_info()["pushedReplies"] == "1"


async def test_K6_the_long_form_of_the_request_is_taken_too(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, replier), asker(network, broker) as asked:
        header = SendMessageRequestHeader.from_short_ext(send_fields(TOPIC, REPLY))
        answer = await replier.ask(RequestCode.SEND_REPLY_MESSAGE, header.to_ext(), b"yes")
        assert answer.code == ResponseCode.SUCCESS
        assert [request.body for request in asked.received] == [b"yes"]


async def test_K6_without_storing_a_reply_has_an_id_that_clients_can_read(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with (
        broker_and_client(network, store_reply_message_enable=False) as (broker, replier),
        asker(network, broker) as asked,
    ):
        answer = await reply(replier)
        assert answer.code == ResponseCode.SUCCESS
        fields = {name: answer.ext_fields[name] for name in ("msgId", "queueId", "queueOffset")}
        assert fields == {"msgId": "0", "queueId": "0", "queueOffset": "0"}
        assert len(asked.received) == 1
        assert await stored(replier) == []


async def test_K6_the_client_that_connected_last_gets_the_reply(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, replier), asker(network, broker) as before:
        async with asker(network, broker) as again:
            assert (await reply(replier)).code == ResponseCode.SUCCESS
            assert (len(before.received), len(again.received)) == (0, 1)
        await wait_all_tasks_blocked()
        assert (await reply(replier)).code == ResponseCode.SUCCESS
        assert len(before.received) == 1


# --- to nobody -----------------------------------------------------------------------------------------------


async def test_K6_a_reply_that_nobody_gets_is_refused_and_stored_all_the_same(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()

    def refuse(request: RemotingCommand) -> RemotingCommand:
        return request.answer(ResponseCode.SYSTEM_ERROR, "no\nway")

    async with broker_and_client(network) as (broker, replier), asker(network, broker, refuse, "refuses"):
        for number, (properties, words) in enumerate(
            [
                (REPLY, "'asker'"),
                (REPLY.replace("asker", "refuses"), "no\\nway"),
                ("MSG_TYPE\x01reply\x02", "REPLY_TO_CLIENT"),
            ]
        ):
            answer = await reply(replier, properties)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert words in (answer.remark or "")
            assert answer.ext_fields["queueOffset"] == str(number), "as Apache's broker: it is stored all the same"
        assert len(await stored(replier)) == 3
        assert broker.runtime_info()["unpushedReplies"] == "3"


async def test_K6_a_client_that_does_not_answer_or_goes_away_is_waited_for_ten_seconds(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, replier), trio.open_nursery() as nursery:
        codes: list[tuple[int, float]] = []

        async def send() -> None:
            began = trio.current_time()
            codes.append(((await reply(replier)).code, trio.current_time() - began))

        async with asker(network, broker, hang):
            await send()
            nursery.start_soon(send)
            await trio.sleep(1)
            assert broker.runtime_info()["pushesUnderWay"] == "1"
        await wait_all_tasks_blocked()
        assert [code for code, _ in codes] == [ResponseCode.SYSTEM_ERROR] * 2
        assert 10 <= codes[0][1] < 10.5
        assert 1 <= codes[1][1] < 1.5


async def test_K6_a_broker_that_stops_answers_those_who_wait_for_a_push(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    answers: list[RemotingCommand] = []

    async def ask(*, task_status: trio.TaskStatus[None]) -> None:
        async with asker(network, broker, hang):
            task_status.started()
            await trio.sleep_forever()

    async def send(*, task_status: trio.TaskStatus[None]) -> None:
        async with client_of(network, broker.address) as replier:
            task_status.started()
            answers.append(await reply(replier))

    async with trio.open_nursery() as nursery:
        async with open_broker(settings(), network=network, storage=MemoryStorage()) as broker:
            await nursery.start(ask)
            await nursery.start(send)
            await trio.sleep(0.5)
            began = trio.current_time()
        assert trio.current_time() - began < 5
        nursery.cancel_scope.cancel()
    assert [answer.code for answer in answers] == [ResponseCode.SYSTEM_ERROR]
    assert "stops" in (answers[0].remark or "")


# --- bounds and refusals ---------------------------------------------------------------------------------------


async def test_K6_pushes_are_bounded_and_what_is_too_much_is_refused(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with (
        broker_and_client(network, reply_thread_pool_queue_capacity=3) as (broker, replier),
        asker(network, broker, hang) as asked,
        trio.open_nursery() as nursery,
    ):
        codes: list[int] = []

        async def send() -> None:
            codes.append((await reply(replier)).code)

        for _ in range(5):
            nursery.start_soon(send)
        await trio.sleep(1)
        assert codes == [ResponseCode.SYSTEM_BUSY] * 2
        assert len(asked.received) == 3
        await trio.sleep(10)
        assert codes[2:] == [ResponseCode.SYSTEM_ERROR] * 3


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "a b"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION),
        ({"topic": "new", "default_topic": "none"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 9}, ResponseCode.INVALID_PARAMETER),
    ],
    ids=lambda value: str(value),
)
async def test_K6_what_may_not_be_sent_is_not_pushed(
    autojump_clock: MockClock, fields: dict[str, Any], code: int
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, replier), asker(network, broker) as asked:
        answer = await reply(replier, **fields)
        assert answer.code == code
        assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
        assert asked.received == []


async def test_K6_what_only_a_broker_says_is_not_stored(autojump_clock: MockClock) -> None:
    """A reply is stored where it was sent, even with properties of delays, transactions and other topics."""
    network = MemoryNetwork()
    more = "DELAY\x0118\x02TRAN_MSG\x01true\x02REAL_TOPIC\x01elsewhere\x02mine\x01kept\x02"
    async with broker_and_client(network) as (broker, replier), asker(network, broker) as asked:
        assert (await reply(replier, REPLY + more)).code == ResponseCode.SUCCESS
        [message] = await stored(replier)
        assert message.properties["mine"] == "kept"
        assert not {"DELAY", "TRAN_MSG", "REAL_TOPIC"} & message.wire_properties.keys()
        assert len(asked.received) == 1


async def test_K6_a_reply_that_cannot_be_stored_is_delivered(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, replier), asker(network, broker) as asked:
        for answer in (await reply(replier, body=b""), await reply(replier, f"{REPLY}long\x01{'x' * 32_767}\x02")):
            assert (answer.code, answer.ext_fields["msgId"]) == (ResponseCode.SUCCESS, "0")
        assert len(asked.received) == 2
        assert await stored(replier) == []
