"""What administrators want of clients: the broker asks them and passes on what they answer, and waits without harm."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageQueue
from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.offsets import GetConsumerStatusBody
from rocketpy.wire.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.group import ConsumeMessageDirectlyResultRequestHeader, GetConsumerRunningInfoRequestHeader
from rocketpy.wire.headers.offset import GetConsumerStatusRequestHeader
from rocketpy.wire.hosts import parse_address
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.to_clients import calling
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, client_of, heartbeat, settings

Answer = Callable[[RemotingCommand], RemotingCommand | None]


@asynccontextmanager
async def member(
    network: MemoryNetwork,
    broker: Broker,
    answer: Answer,
    client_id: str = "c1",
    group: str = "g",
    **more: object,
) -> AsyncIterator[Client]:
    """A client of a group that answers what the broker asks."""
    received: list[RemotingCommand] = []

    def asked(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            return None
        received.append(request)
        return answer(request)

    stream = await network.open_stream(*parse_address(broker.address))
    async with open_connection(stream, RequestDispatcher({}, asked), address=broker.address) as connection:
        client = Client(connection, received)
        body = heartbeat(group, "T", client_id=client_id).encode()
        assert (await client.ask(RequestCode.HEART_BEAT, body=body, **more)).code == 0
        yield client


async def info(client: Client, client_id: str = "c1", group: str = "g", **more: object) -> RemotingCommand:
    header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id, jstack_enable=True)
    fields = header.to_ext() | {"AccessKey": "admin", "Signature": "secret", "SecurityToken": "secret"}
    return await client.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields, **more)


async def directly(client: Client, message_id: str | None, client_id: str = "c1") -> RemotingCommand:
    header = ConsumeMessageDirectlyResultRequestHeader(
        consumer_group="g", client_id=client_id, msg_id=message_id, topic="T"
    )
    return await client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header.to_ext())


async def status(client: Client, who: str | None = None, group: str = "g") -> RemotingCommand:
    header = GetConsumerStatusRequestHeader(topic="T", group=group, client_addr=who)
    return await client.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header.to_ext())


def refuse(request: RemotingCommand) -> RemotingCommand:
    return request.answer(ResponseCode.NO_PERMISSION, "no", {"field": "value"}, b"why")


def silent(request: RemotingCommand) -> None:
    return None


# --- one client ------------------------------------------------------------------------------------------


async def test_PC7_the_answer_of_a_client_is_passed_on_as_it_is(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, admin), member(network, broker, refuse) as asked:
        answer = await info(admin)
        assert (answer.code, answer.remark, answer.body) == (ResponseCode.NO_PERMISSION, "no", b"why")
        assert answer.ext_fields["field"] == "value"
        [request] = asked.received
        assert request.ext_fields["jstackEnable"] == "true"
        assert not {"AccessKey", "Signature", "SecurityToken"} & set(request.ext_fields)


async def test_PC7_a_message_goes_to_the_client_as_it_is_stored(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()

    def consume(request: RemotingCommand) -> RemotingCommand:
        return request.answer(body=b'{"consumeResult":"CR_SUCCESS"}')

    async with broker_and_client(network) as (broker, admin), member(network, broker, consume) as asked:
        sent = await admin.send("T", b"body", "KEYS\x01k\x02")
        answer = await directly(admin, sent.ext_fields["msgId"])
        assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
        [request] = asked.received
        [message] = decode_messages(request.body)
        assert (message.topic, message.body, message.wire_properties["KEYS"]) == ("T", b"body", "k")
        assert request.ext_fields["brokerName"] == broker.config.broker_name
        assert request.ext_fields["topicSysFlag"] == request.ext_fields["groupSysFlag"] == "0"


async def test_PC7_without_its_message_a_client_is_not_asked(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, admin), member(network, broker, silent) as asked:
        sent = await admin.send("T", b"body")
        nowhere = sent.ext_fields["msgId"][:-4] + "FFFF"
        assert (await directly(admin, nowhere)).code == ResponseCode.SYSTEM_ERROR
        for wrong in (None, "", "x" * 32, "0" * 31, "F" * 32):
            assert (await directly(admin, wrong)).code != 0
        assert asked.received == []


async def test_PC7_a_client_that_is_not_there_or_too_old_is_told(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with (
        broker_and_client(network) as (broker, admin),
        member(network, broker, silent, "old", version=61, language=LanguageCode.JAVA),
    ):
        answer = await info(admin)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "The Consumer <g> <c1> not online")
        answer = await info(admin, "old")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "V3_1_8_SNAPSHOT" in (answer.remark or "")
        assert (await info(admin, "x" * 1025)).code == ResponseCode.INVALID_PARAMETER
        assert (await info(admin, group="a b")).code == ResponseCode.INVALID_PARAMETER


async def test_PC7_a_client_that_does_not_answer_has_ten_seconds(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, admin), member(network, broker, silent):
        began = trio.current_time()
        answer = await info(admin)
        assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert trio.current_time() - began == pytest.approx(calling.CALL_SECONDS, abs=0.5)
        assert len(broker.clients.calls) == 0


async def test_PC7_a_client_whose_connection_ends_is_not_waited_for(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, admin):
        async with trio.open_nursery() as nursery:
            answers: list[RemotingCommand] = []

            async def ask() -> None:
                answers.append(await info(admin))

            async with member(network, broker, silent):
                nursery.start_soon(ask)
                await trio.sleep(1)
            began = trio.current_time()
        assert trio.current_time() - began < 1
        assert answers[0].code == ResponseCode.SYSTEM_ERROR
        assert "its connection has ended" in (answers[0].remark or "")


async def test_PC7_waiting_is_bounded_and_holds_up_nobody(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "MOST", 6)
    monkeypatch.setattr(calling, "MOST_OF_ONE", 4)
    network = MemoryNetwork()
    codes: list[int] = []
    async with (
        broker_and_client(network) as (broker, admin),
        member(network, broker, silent),
        client_of(network, broker.address) as other,
        trio.open_nursery() as nursery,
    ):

        async def ask(client: Client) -> None:
            codes.append((await info(client)).code)

        for client in (admin, other):
            for _ in range(8):
                nursery.start_soon(ask, client)
        await trio.sleep(1)
        assert codes == [ResponseCode.SYSTEM_BUSY] * 10
        assert (await admin.send()).code == 0
        await trio.sleep(calling.CALL_SECONDS)
        assert codes[10:] == [ResponseCode.CONSUME_MSG_TIMEOUT] * 6
        nursery.start_soon(ask, admin)
        await trio.sleep(calling.CALL_SECONDS + 1)
        assert codes[16:] == [ResponseCode.CONSUME_MSG_TIMEOUT]


async def test_PC7_a_broker_that_stops_tells_who_waits(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    answers: list[RemotingCommand] = []
    stop, stopped = trio.Event(), trio.Event()

    async def run(task_status: trio.TaskStatus[Broker]) -> None:
        async with open_broker(settings(), network=network, storage=MemoryStorage()) as broker:
            task_status.started(broker)
            await stop.wait()
        stopped.set()

    async with trio.open_nursery() as nursery:
        broker = await nursery.start(run)
        async with client_of(network, broker.address) as admin, member(network, broker, silent):

            async def ask() -> None:
                answers.append(await info(admin))

            nursery.start_soon(ask)
            await trio.sleep(1)
            stop.set()
            with trio.fail_after(3):
                await stopped.wait()
    assert answers[0].code == ResponseCode.SYSTEM_ERROR
    assert answers[0].remark == "the broker stops: ask again when it is back"


# --- all clients of a group ------------------------------------------------------------------------------


def standing_at(offset: int) -> Answer:
    def answer(request: RemotingCommand) -> RemotingCommand:
        table = {MessageQueue("T", "broker-a", offset): offset}
        return request.answer(body=GetConsumerStatusBody(message_queue_table=table).encode())

    return answer


def nonsense(request: RemotingCommand) -> RemotingCommand:
    return request.answer(body=b'{"messageQueueTable":[1,2')


async def test_PC7_where_each_client_of_a_group_stands(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with (
        broker_and_client(network) as (broker, admin),
        member(network, broker, standing_at(1), "one"),
        member(network, broker, standing_at(2), "two"),
        member(network, broker, silent, "silent"),
        member(network, broker, nonsense, "mad"),
        member(network, broker, refuse, "unwilling"),
    ):
        answer = await status(admin)
        assert answer.code == 0
        table = GetConsumerStatusBody.decode(answer.body).consumer_table
        queues = {number: MessageQueue("T", "broker-a", number) for number in (1, 2)}
        assert table == {"one": {queues[1]: 1}, "two": {queues[2]: 2}}
        one = GetConsumerStatusBody.decode((await status(admin, "two")).body).consumer_table
        assert one == {"two": {queues[2]: 2}}
        none = GetConsumerStatusBody.decode((await status(admin, "nobody")).body).consumer_table
        assert none == {}


async def test_PC7_of_a_group_without_clients_nobody_is_asked(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, admin):
        answer = await status(admin)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "No Any Consumer online in the consumer group: [g]"


async def test_PC7_a_group_with_a_client_that_is_too_old_is_refused(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, admin), member(network, broker, silent, version=27):
        assert (await status(admin)).code == ResponseCode.SYSTEM_ERROR
