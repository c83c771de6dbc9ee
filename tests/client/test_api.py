"""Remote operations one by one: what goes out, what is made of the answer, which error is which."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from rocketpy.client.api import admin, group, offset, pull, send
from rocketpy.client.call import call, request
from rocketpy.errors import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    MessageDecodeError,
    MessageIllegalError,
    NoPermissionError,
    RemoteProtocolError,
    RequestTimeoutError,
    SubscriptionGroupNotExistError,
    SystemBusyError,
)
from rocketpy.message import MessageQueue
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.results import PullStatus, SendStatus
from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
from rocketpy.wire.bodies.topics import CreateTopicListRequestBody, TopicConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import BoundaryType
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.headers.send import ConsumerSendMsgBackRequestHeader, SendMessageRequestHeader
from rocketpy.wire.hosts import pack_host
from rocketpy.wire.message_codec import encode_record
from tests.client.fakes import FakeBroker

QUEUE = MessageQueue("T", "broker-a", 2)


@attrs.define
class World:
    network: MemoryNetwork
    broker: FakeBroker
    pool: ConnectionPool

    @property
    def address(self) -> str:
        return self.broker.address

    def answers(
        self, code: int, answer: int = 0, remark: str | None = None, body: bytes = b"", **fields: object
    ) -> None:
        """Let the broker answer requests of a code always in the same way."""
        ext = {name: str(value) for name, value in fields.items()}
        self.broker.on(code, lambda connection, request: request.answer(answer, remark, dict(ext), body))

    def asked(self) -> dict[str, str]:
        """Fields of the last request."""
        return self.broker.requests[-1].ext_fields


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    network = MemoryNetwork()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(FakeBroker().open(network))
        pool = await stack.enter_async_context(ConnectionPool(network).open())
        yield World(network, broker, pool)


# --- errors of the way -----------------------------------------------------------------------------------


async def test_R2_timeout_loss_and_refusal_are_distinct_errors(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        command = request(RequestCode.GET_MAX_OFFSET)
        w.broker.on(RequestCode.GET_MAX_OFFSET, lambda connection, request: None)
        before = trio.current_time()
        with pytest.raises(RequestTimeoutError):
            await call(w.pool, w.address, command, timeout=2)
        assert trio.current_time() - before == pytest.approx(2)
        w.broker.on(RequestCode.GET_MAX_OFFSET, lambda connection, request: connection.close())
        with pytest.raises(ConnectionLostError):
            await call(w.pool, w.address, command, timeout=2)
        w.network.refuse(w.address)
        with pytest.raises(ConnectError) as refused:
            await call(w.pool, w.address, command, timeout=2)
        assert refused.value.address == w.address
        w.network.heal(w.address)
        w.answers(RequestCode.GET_MAX_OFFSET, ResponseCode.NO_PERMISSION, "no")
        with pytest.raises(NoPermissionError, match=f"refused by {w.address} with code 16: no"):
            await offset.max_offset(w.pool, w.address, QUEUE, timeout=5)


async def test_dialling_counts_against_the_same_budget(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.network.hang(w.address)
        before = trio.current_time()
        with pytest.raises((RequestTimeoutError, ConnectError)):
            await call(w.pool, w.address, request(RequestCode.GET_MAX_OFFSET), timeout=1)
        assert trio.current_time() - before == pytest.approx(1)


# --- sending ---------------------------------------------------------------------------------------------


def send_header(**fields: object) -> SendMessageRequestHeader:
    values = {
        "producer_group": "p",
        "topic": "T",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 2,
        "sys_flag": 0,
        "born_timestamp": 1,
        "flag": 0,
    }
    return SendMessageRequestHeader(**(values | fields))


async def send_one(w: World, **fields: object):
    header = send_header(**fields)
    code = RequestCode.SEND_BATCH_MESSAGE if header.batch else RequestCode.SEND_MESSAGE_V2
    answer = await call(w.pool, w.address, RemotingCommand(code, header.to_short_ext(), b"body"), timeout=3)
    return send.send_result(answer, w.address, header.topic, "broker-a", "ID")


async def test_a_send_says_where_the_message_is(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(
            RequestCode.SEND_MESSAGE_V2,
            msgId="OFFSET-ID",
            queueId=3,
            queueOffset=77,
            transactionId="TX",
            MSG_REGION="east",
            TRACE_ON="false",
        )
        result = await send_one(w)
        assert result == (
            SendStatus.SEND_OK,
            "ID",
            "OFFSET-ID",
            MessageQueue("T", "broker-a", 3),
            77,
            "TX",
            "east",
            False,
            None,
        )
        sent = w.broker.requests[-1]
        assert sent.body == b"body"
        assert (sent.ext_fields["a"], sent.ext_fields["b"], sent.ext_fields["e"]) == ("p", "T", "2")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.SUCCESS, SendStatus.SEND_OK),
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
async def test_answers_that_mean_stored(
    autojump_clock: trio.testing.MockClock, code: ResponseCode, status: SendStatus
) -> None:
    async with open_world() as w:
        w.answers(RequestCode.SEND_MESSAGE_V2, code, msgId="M", queueId=0, queueOffset=0)
        result = await send_one(w)
        assert result.status is status
        assert (result.region_id, result.trace_on, result.transaction_id) == ("DefaultRegion", True, None)


async def test_answers_that_mean_refused_are_errors(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(RequestCode.SEND_MESSAGE_V2, ResponseCode.MESSAGE_ILLEGAL, "too large")
        with pytest.raises(MessageIllegalError, match="a message for T refused") as error:
            await send_one(w)
        assert not error.value.retriable
        w.answers(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]")
        with pytest.raises(SystemBusyError) as busy:
            await send_one(w)
        assert busy.value.retriable


async def test_an_answer_without_its_fields_is_the_peers_fault(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(RequestCode.SEND_MESSAGE_V2, msgId="M")
        with pytest.raises(RemoteProtocolError, match=w.address):
            await send_one(w)


async def test_a_batch_has_an_id_for_each_message(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(RequestCode.SEND_BATCH_MESSAGE, msgId="A,B", queueId=0, queueOffset=5)
        result = await send_one(w, batch=True)
        assert (result.offset_message_id, w.asked()["m"]) == ("A,B", "true")


async def test_sending_back(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        header = ConsumerSendMsgBackRequestHeader(offset=99, group="g", delay_level=3, max_reconsume_times=16)
        w.answers(RequestCode.CONSUMER_SEND_MSG_BACK)
        await send.send_back(w.pool, w.address, header, timeout=5)
        assert (w.asked()["offset"], w.asked()["delayLevel"]) == ("99", "3")
        w.answers(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "g")
        with pytest.raises(SubscriptionGroupNotExistError):
            await send.send_back(w.pool, w.address, header, timeout=5)


# --- pulling ---------------------------------------------------------------------------------------------


def pull_header() -> PullMessageRequestHeader:
    return PullMessageRequestHeader(
        consumer_group="g",
        topic="T",
        queue_id=2,
        queue_offset=10,
        max_msg_nums=32,
        sys_flag=2,
        commit_offset=0,
        suspend_timeout_millis=15_000,
        sub_version=0,
    )


def record(body: bytes, number: int) -> bytes:
    return encode_record(
        topic=b"T",
        body=body,
        properties=b"TAGS\x01a\x02",
        queue_id=2,
        flag=0,
        queue_offset=number,
        physical_offset=number * 100,
        sys_flag=0,
        born_timestamp=1,
        born_host=pack_host("127.0.0.1", 1),
        store_timestamp=2,
        store_host=pack_host("127.0.0.1", 2),
    )


PULLED = {"suggestWhichBrokerId": 1, "nextBeginOffset": 12, "minOffset": 3, "maxOffset": 20}


async def pull_one(w: World, *, lite: bool = False):
    return await pull.pull_message(w.pool, w.address, pull_header(), broker_name="broker-a", timeout=30, lite=lite)


async def test_a_pull_that_finds_messages(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(RequestCode.PULL_MESSAGE, body=record(b"one", 10) + record(b"two", 11), **PULLED)
        result = await pull_one(w)
        assert result.status is PullStatus.FOUND
        assert [(m.body, m.queue_offset, m.broker_name, m.tags) for m in result.messages] == [
            (b"one", 10, "broker-a", "a"),
            (b"two", 11, "broker-a", "a"),
        ]
        assert (result.next_begin_offset, result.min_offset, result.max_offset) == (12, 3, 20)
        assert result.suggested_broker_id == 1
        assert w.asked()["queueOffset"] == "10"
        w.answers(RequestCode.LITE_PULL_MESSAGE, ResponseCode.PULL_NOT_FOUND, **PULLED)
        assert (await pull_one(w, lite=True)).status is PullStatus.NO_NEW_MSG


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.PULL_NOT_FOUND, PullStatus.NO_NEW_MSG),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, PullStatus.NO_MATCHED_MSG),
        (ResponseCode.PULL_OFFSET_MOVED, PullStatus.OFFSET_ILLEGAL),
    ],
)
async def test_a_pull_that_finds_none(
    autojump_clock: trio.testing.MockClock, code: ResponseCode, status: PullStatus
) -> None:
    async with open_world() as w:
        w.answers(RequestCode.PULL_MESSAGE, code, "status", **PULLED)
        result = await pull_one(w)
        assert (result.status, result.messages, result.next_begin_offset) == (status, [], 12)


async def test_a_pull_that_is_refused_or_damaged(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(RequestCode.PULL_MESSAGE, ResponseCode.SUBSCRIPTION_NOT_LATEST, "old")
        with pytest.raises(BrokerError) as error:
            await pull_one(w)
        assert error.value.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        w.answers(RequestCode.PULL_MESSAGE, body=record(b"one", 10) + record(b"two", 11)[:-3], **PULLED)
        with pytest.raises(MessageDecodeError):
            await pull_one(w)
        w.answers(RequestCode.PULL_MESSAGE, nextBeginOffset=1)
        with pytest.raises(RemoteProtocolError, match=w.address):
            await pull_one(w)


# --- offsets ---------------------------------------------------------------------------------------------


async def test_offsets_of_a_group(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(RequestCode.QUERY_CONSUMER_OFFSET, offset=41)
        assert await offset.query_consumer_offset(w.pool, w.address, "g", QUEUE, timeout=3) == 41
        assert (w.asked()["consumerGroup"], w.asked()["queueId"], w.asked()["bname"]) == ("g", "2", "broker-a")
        assert "setZeroIfNotFound" not in w.asked()
        w.answers(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.QUERY_NOT_FOUND, "none")
        found = await offset.query_consumer_offset(
            w.pool, w.address, "g", QUEUE, set_zero_if_not_found=False, timeout=3
        )
        assert found is None
        assert w.asked()["setZeroIfNotFound"] == "false"


async def test_commits_with_and_without_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        await offset.update_consumer_offset(w.pool, w.address, "g", QUEUE, 42, timeout=3)
        await trio.testing.wait_all_tasks_blocked()
        assert w.broker.requests[-1].is_oneway
        assert w.asked()["commitOffset"] == "42"
        w.answers(RequestCode.UPDATE_CONSUMER_OFFSET)
        await offset.update_consumer_offset(w.pool, w.address, "g", QUEUE, 43, wait=True, timeout=3)
        assert not w.broker.requests[-1].is_oneway
        w.answers(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "g")
        with pytest.raises(SubscriptionGroupNotExistError):
            await offset.update_consumer_offset(w.pool, w.address, "g", QUEUE, 44, wait=True, timeout=3)


async def test_the_ends_of_a_queue_and_what_is_between(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(RequestCode.GET_MAX_OFFSET, offset=9)
        w.answers(RequestCode.GET_MIN_OFFSET, offset=1)
        w.answers(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, offset=5)
        w.answers(RequestCode.GET_EARLIEST_MSG_STORETIME, timestamp=-1)
        assert await offset.max_offset(w.pool, w.address, QUEUE, timeout=3) == 9
        assert await offset.min_offset(w.pool, w.address, QUEUE, timeout=3) == 1
        assert await offset.search_offset(w.pool, w.address, QUEUE, 123, timeout=3) == 5
        assert "boundaryType" not in w.asked()
        await offset.search_offset(w.pool, w.address, QUEUE, 123, boundary=BoundaryType.UPPER, timeout=3)
        assert (w.asked()["timestamp"], w.asked()["boundaryType"]) == ("123", "UPPER")
        assert await offset.earliest_store_time(w.pool, w.address, QUEUE, timeout=3) == -1


# --- groups and topics -----------------------------------------------------------------------------------


async def test_members_of_a_group(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        w.answers(RequestCode.GET_CONSUMER_LIST_BY_GROUP, body=b'{"consumerIdList":["b@1","a@2"]}')
        assert await group.consumer_list(w.pool, w.address, "g", timeout=3) == ["b@1", "a@2"]
        w.answers(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")
        assert await group.consumer_list(w.pool, w.address, "g", timeout=3) == []
        w.answers(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.NO_PERMISSION, "no")
        with pytest.raises(NoPermissionError):
            await group.consumer_list(w.pool, w.address, "g", timeout=3)


async def test_topics_are_created_read_and_deleted(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        for code in (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            RequestCode.DELETE_TOPIC_IN_BROKER,
        ):
            w.answers(code)
        config = TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=4, attributes={"message.type": "FIFO"})
        await admin.create_topic(w.pool, w.address, config, timeout=3)
        asked = w.asked()
        assert (asked["topic"], asked["readQueueNums"], asked["writeQueueNums"], asked["perm"]) == ("T", "8", "4", "6")
        assert (asked["attributes"], asked["topicFilterType"]) == ("+message.type=FIFO", "SINGLE_TAG")
        await admin.create_topics(w.pool, w.address, [config], timeout=3)
        assert CreateTopicListRequestBody.decode(w.broker.requests[-1].body).topic_config_list == [config]
        await admin.delete_topic(w.pool, w.address, "T", timeout=3)
        assert w.asked()["topic"] == "T"
        w.answers(RequestCode.GET_TOPIC_CONFIG, body=config.encode())
        assert await admin.topic_config(w.pool, w.address, "T", timeout=3) == config
        w.answers(RequestCode.GET_TOPIC_CONFIG, ResponseCode.TOPIC_NOT_EXIST, "no")
        assert await admin.topic_config(w.pool, w.address, "T", timeout=3) is None


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({}, None),
        ({"a": "1", "b": "2"}, "+a=1,+b=2"),
        ({"+a": "1", "-b": ""}, "+a=1,-b"),
    ],
)
async def test_attributes_carry_their_sign(
    autojump_clock: trio.testing.MockClock, attributes: dict[str, str], text: str | None
) -> None:
    async with open_world() as w:
        w.answers(RequestCode.UPDATE_AND_CREATE_TOPIC)
        await admin.create_topic(w.pool, w.address, TopicConfig(topic_name="T", attributes=attributes), timeout=3)
        assert w.asked().get("attributes") == text


async def test_groups_are_created_and_deleted(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        config = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
        w.answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
        await admin.create_group(w.pool, w.address, config, timeout=3)
        assert SubscriptionGroupConfig.decode(w.broker.requests[-1].body) == config
        w.answers(RequestCode.DELETE_SUBSCRIPTIONGROUP)
        await admin.delete_group(w.pool, w.address, "g", clean_offset=True, timeout=3)
        assert (w.asked()["groupName"], w.asked()["cleanOffset"], w.asked()["removeOffset"]) == ("g", "true", "true")
        w.answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ResponseCode.SYSTEM_ERROR, "disk")
        with pytest.raises(BrokerError, match="creating the group g refused"):
            await admin.create_group(w.pool, w.address, config, timeout=3)
