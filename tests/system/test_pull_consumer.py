"""A pull consumer and a whole cluster, in one loop and in virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import PullConsumer
from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    ClientClosedError,
    ConfigError,
    FilterRefusedError,
    OffsetOutOfRangeError,
    RequestTimeoutError,
    TopicNotFoundError,
)
from rocketpy.message import Message, MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.results import PullStatus
from rocketpy.wire.bodies.heartbeat import CheckClientRequestBody
from rocketpy.wire.bodies.running import ConsumerRunningInfo
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.group import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from tests.broker_sim.broker.kit import client_of
from tests.consumer import brokers
from tests.consumer.helpers import role_of
from tests.system.consuming import world

QUEUE = MessageQueue("Orders", "broker-a", 0)


async def test_PL7_what_was_found_and_where_to_go_on(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.puller() as consumer:
        assert await consumer.fetch_message_queues("Orders") == (QUEUE,)
        sent = await w.send(50)
        offset, got = 0, []
        while (result := await consumer.pull(QUEUE, offset, max_messages=20)).status is PullStatus.FOUND:
            got += [message.body for message in result.messages]
            offset = result.next_begin_offset
        assert got == sent
        assert (result.status, offset, result.min_offset, result.max_offset) == (PullStatus.NO_NEW_MSG, 50, 0, 50)


async def test_PL7_statuses(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.puller() as consumer:
        await w.send(10, tags="BB")
        none = await consumer.pull(QUEUE, 0, tags="open")
        assert (none.status, none.next_begin_offset) == (PullStatus.NO_MATCHED_MSG, 10)
        same_hash = await consumer.pull(QUEUE, 0, tags="Aa")
        assert (same_hash.status, same_hash.messages) == (PullStatus.NO_MATCHED_MSG, [])
        assert same_hash.next_begin_offset == 10
        beyond = await consumer.pull(QUEUE, 99)
        assert (beyond.status, beyond.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, 10)
        assert len((await consumer.pull(QUEUE, 3, tags="BB || x")).messages) == 7


async def test_PL7_blocking_until_something_comes(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.puller(broker_suspend_max_time=7, consumer_timeout_when_suspend=9) as consumer:
        started = trio.current_time()
        result = await consumer.pull_block_if_not_found(QUEUE, 0)
        assert result.status is PullStatus.NO_NEW_MSG
        assert trio.current_time() - started == pytest.approx(7, abs=5.1)  # the broker looks every five seconds
        async with trio.open_nursery() as nursery:

            async def send_later() -> None:
                await trio.sleep(2)
                await w.send(1)

            nursery.start_soon(send_later)
            started = trio.current_time()
            result = await consumer.pull_block_if_not_found(QUEUE, 0)
        assert [message.body for message in result.messages] == [b"0"]
        assert trio.current_time() - started == pytest.approx(2, abs=0.1)


async def test_PL7_several_pulls_of_one_queue_are_held_side_by_side(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.puller() as consumer:
        ended: dict[str, tuple[float, list[bytes]]] = {}
        started = trio.current_time()

        async def pull(name: str, tags: str | None) -> None:
            result = await consumer.pull_block_if_not_found(QUEUE, 0, tags=tags)
            ended[name] = round(trio.current_time() - started, 1), [each.body for each in result.messages]

        async with trio.open_nursery() as nursery:
            for name, tags in (("one", None), ("other", None), ("red", "red"), ("blue", "blue")):
                nursery.start_soon(pull, name, tags)
            await trio.sleep(3)
            assert ended == {}
            await w.producer.send(Message("Orders", b"a", tags="red"))
            await trio.sleep(2)
            assert ended == dict.fromkeys(("one", "other", "red"), (3, [b"a"]))
            await w.producer.send(Message("Orders", b"b", tags="blue"))
        assert ended["blue"] == (5, [b"b"])


async def test_PL7_offsets(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.puller() as consumer:
        await w.send(5)
        assert await consumer.fetch_consume_offset(QUEUE) is None
        with pytest.raises(OffsetOutOfRangeError, match="ends at offset 5, so that 6 cannot be committed") as caught:
            await consumer.update_consume_offset(QUEUE, 6)
        assert (caught.value.min_offset, caught.value.max_offset) == (0, 5)
        for wrong in (-1, True, 0.5, None):
            with pytest.raises(ConfigError, match="an offset must be"):
                await consumer.update_consume_offset(QUEUE, wrong)  # type: ignore[arg-type]
        assert await consumer.fetch_consume_offset(QUEUE) is None
        for end in (5, 0):
            await consumer.update_consume_offset(QUEUE, end)
            assert await consumer.fetch_consume_offset(QUEUE) == end
        await consumer.update_consume_offset(QUEUE, 3)
        assert await consumer.fetch_consume_offset(QUEUE) == 3
        await consumer.update_consume_offset(QUEUE, 1)
        assert await consumer.fetch_consume_offset(QUEUE) == 1
        lite = w.lite("audit")
        lite.assign([QUEUE])
        async with lite:
            assert [message.queue_offset for message in await lite.poll()] == [1, 2, 3, 4]


async def test_arguments_and_refusals(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        consumer = w.puller()
        assert await consumer.fetch_message_queues("Orders") == (QUEUE,)
        with pytest.raises(ClientClosedError):
            await consumer.pull(QUEUE, 0)
        async with consumer:
            for wrong in (-1, True, 0.5, None):
                with pytest.raises(ConfigError, match="an offset must be"):
                    await consumer.pull(QUEUE, wrong)  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match="max_messages"):
                await consumer.pull(QUEUE, 0, max_messages=0)
            with pytest.raises(ConfigError, match="by tags or by sql"):
                await consumer.pull(QUEUE, 0, tags="a", sql="b = 1")
            with pytest.raises(ConfigError, match=r"rocketpy\.MessageQueue"):
                await consumer.pull("Orders", 0)  # type: ignore[arg-type]
            with pytest.raises(BrokerError, match="queue id 7 is illegal"):
                await consumer.pull(MessageQueue("Orders", "broker-a", 7), 0)
            with pytest.raises(BrokerUnreachableError, match="has no broker elsewhere"):
                await consumer.pull(MessageQueue("Orders", "elsewhere", 0), 0)
            with pytest.raises(TopicNotFoundError):
                await consumer.pull(MessageQueue("Nowhere", "nowhere", 0), 0)
            assert w.cluster.name_server_addresses
        with pytest.raises(ClientClosedError, match="is closed"):
            await consumer.pull(QUEUE, 0)


async def test_pulls_by_an_expression_bring_what_it_wants(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.puller() as consumer:
        for number in range(4):
            await w.producer.send(Message("Orders", b"%d" % number, properties={"amount": str(number)}))
        result = await consumer.pull(QUEUE, 0, sql="amount BETWEEN 1 AND 2")
        assert [message.body for message in result.messages] == [b"1", b"2"]
        assert result.next_begin_offset == 4
        waited = await consumer.pull_block_if_not_found(QUEUE, 0, sql="amount = 3")
        assert [message.body for message in waited.messages] == [b"3"]
        with pytest.raises(BrokerError, match="at character 9"):
            await consumer.pull(QUEUE, 0, sql="amount >")
        for pull in (consumer.pull, consumer.pull_block_if_not_found):
            with pytest.raises(FilterRefusedError, match="correct the expression, or subscribe by tags") as caught:
                await pull(QUEUE, 0, sql="amount >")
            error = caught.value
            assert (error.code, error.position, error.topic, error.expression) == (23, 9, "Orders", "amount >")


async def test_a_pull_checks_an_expression_once_as_apaches_broker_gives_everything_to_a_wrong_one(
    autojump_clock: MockClock,
) -> None:
    async with brokers.world() as w:
        w.broker.store(3)
        checks: list[str | None] = []

        def check(_: Connection, request: RemotingCommand) -> RemotingCommand:
            asked = CheckClientRequestBody.decode(request.body).subscription_data
            checks.append(None if asked is None else asked.sub_string)
            return request.answer(23 if checks[-1] == "a >" else 0, "wrong")

        w.broker.on(RequestCode.CHECK_CLIENT_CONFIG, check)
        async with PullConsumer("audit", namesrv=w.name_server.address, network=w.network) as consumer:
            for _ in range(2):
                with pytest.raises(FilterRefusedError, match="code 23: wrong: correct the expression"):
                    await consumer.pull(brokers.queue(), 0, sql="a >")
            assert not w.broker.pulls
            for sql in ("a > 1", "a > 1", "a > 2"):
                await consumer.pull(brokers.queue(), 0, sql=sql)
            assert checks == ["a >", "a >", "a > 1", "a > 2"]
            w.broker.on(RequestCode.CHECK_CLIENT_CONFIG, lambda *_: None)
            pulls = len(w.broker.pulls)
            with pytest.raises(RequestTimeoutError):
                await consumer.pull(brokers.queue(), 0, sql="a > 3")
            assert len(w.broker.pulls) == pulls, "pulled by an expression that nobody has checked"


async def test_a_pull_by_an_expression_from_a_broker_that_does_not_filter_by_them(autojump_clock: MockClock) -> None:
    async with world(queues=1, enable_property_filter=False) as w, w.puller() as consumer:
        with pytest.raises(FilterRefusedError, match="set enablePropertyFilter=true there, or subscribe") as caught:
            await consumer.pull(QUEUE, 0, sql="amount > 1")
        assert (caught.value.code, caught.value.position, caught.value.topic) == (1, None, "Orders")
        # The broker gives that advice as well: it is not said twice.
        assert "set enablePropertyFilter=true" in caught.value.remark
        assert str(caught.value).count("enablePropertyFilter") == 1


@pytest.mark.parametrize("check", ["accepts", "fails"])
async def test_a_pull_by_an_expression_may_fail_for_another_reason(autojump_clock: MockClock, check: str) -> None:
    async with brokers.world() as w:
        settings = {"namesrv": w.name_server.address, "network": w.network}
        async with PullConsumer("audit", **settings) as consumer:
            code = 0 if check == "accepts" else 3
            w.broker.on(RequestCode.CHECK_CLIENT_CONFIG, lambda _, request: request.answer(code))
            w.broker.script = [1]
            with pytest.raises(BrokerError, match="code 1: as told") as caught:
                await consumer.pull(brokers.queue(), 0, sql="amount > 1")
            assert type(caught.value) is BrokerError
            # A broker that was restarted with other settings says so, though it accepted the expression before.
            w.broker.on(RequestCode.CHECK_CLIENT_CONFIG, lambda _, request: request.answer(1, "off"))
            w.broker.script = [1]
            with pytest.raises(FilterRefusedError, match="code 1: off: set enablePropertyFilter=true there"):
                await consumer.pull(brokers.queue(), 0, sql="amount > 1")


async def test_PL5_a_pull_may_carry_an_offset_commit(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        # Commits of their own come much later.
        pushed = w.consumer("audit", persist_consumer_offset_interval=3000)
        pushed.subscribe("Orders", lambda message: None)
        async with pushed, w.puller() as looking:
            await w.send(5)
            await trio.sleep(40)
            assert await looking.fetch_consume_offset(QUEUE) == 5


async def test_PC7_it_says_how_it_is_inside_and_does_nothing_else_that_brokers_ask(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.puller(consumer_pull_timeout=7.0) as consumer:
        await w.send(1)
        [message] = (await consumer.pull(QUEUE, 0)).messages
        [broker] = w.cluster.brokers
        async with client_of(w.cluster.network, broker.address) as admin:
            header = GetConsumerRunningInfoRequestHeader(
                consumer_group="audit", client_id=consumer.client.client_id, jstack_enable=True
            )
            answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header.to_ext())
            info = ConsumerRunningInfo.decode(answer.body)
            assert (info.properties["consumerGroup"], info.properties["consumerPullTimeoutMillis"]) == ("audit", "7000")
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
            assert int(info.properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
            assert (info.mq_table, list(info.subscription_set)) == ({}, [])
            assert info.jstack is not None
            directly = ConsumeMessageDirectlyResultRequestHeader(
                consumer_group="audit", client_id=consumer.client.client_id, msg_id=message.offset_message_id
            )
            answer = await admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, directly.to_ext())
            assert "which has no listener: choose a push consumer" in (answer.remark or "")
        driven = role_of(consumer).driven
        assert driven.offsets_of("Orders") == {}
        await driven.note_reset("Orders", {QUEUE: 0}, sender="127.0.0.1:10911")
        await driven.carry_out_resets()
    assert consumer.client.roles.consumers == {}
