"""What follows a failed try: other brokers, one deadline, and an error that says all of it."""

from __future__ import annotations

import pytest
import trio

from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConnectError,
    ConnectionLostError,
    NameServerUnreachableError,
    RequestTimeoutError,
    SendError,
    ServiceNotAvailableError,
    TopicNotFoundError,
    TopicNotWritableError,
)
from rocketpy.message import Message, MessageQueue
from rocketpy.producer.choosing import choice_of, fixed
from rocketpy.producer.terms import Terms
from rocketpy.results import SendStatus
from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.producer.brokers import SendBroker


def message(**fields):
    return Message("T", b"hello", **fields)


class SlowBroker(SendBroker):
    """Answers a send a second after it has come."""

    def __init__(self, name, nursery):
        super().__init__(name)
        self.nursery = nursery

    def send(self, connection, request):
        self.nursery.start_soon(self.answer_later, connection, request, super().send(connection, request))

    async def answer_later(self, connection, request, answer):
        await trio.sleep(1)
        connection.send_answer(request, answer)


def both(script_a=(), script_b=()):
    return SendBroker("broker-a", script_a), SendBroker("broker-b", script_b)


@pytest.mark.parametrize("failure", [ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR, "hang up"])
async def test_S12_a_failure_is_tried_again_at_another_broker(autojump_clock, opened, failure):
    a, b = both([failure] * 9)
    async with opened(a, b) as (producer, _):
        for _ in range(8):  # the turn begins anywhere: in eight sends it comes to both brokers
            assert (await producer.send(message())).queue.broker_name == "broker-b"
    ids = {taken.properties["UNIQ_KEY"] for taken in a.taken} & {taken.properties["UNIQ_KEY"] for taken in b.taken}
    assert a.taken
    assert len(ids) == len(a.taken)  # the same message, not a copy with an id of its own


async def test_S12_the_number_of_tries_is_one_and_the_retries(autojump_clock, opened):
    a, b = both([14] * 9, [14] * 9)
    async with opened(a, b, retry_times_when_send_failed=4) as (producer, _):
        with pytest.raises(SendError) as caught:
            await producer.send(message())
    assert len(a.taken) + len(b.taken) == 5
    assert len(caught.value.attempts) == 5
    assert {attempt.broker_name for attempt in caught.value.attempts} == {"broker-a", "broker-b"}
    assert isinstance(caught.value.__cause__, ServiceNotAvailableError)


async def test_tries_that_came_to_the_same_are_told_once(autojump_clock, opened):
    a, _ = both([14] * 9)
    async with opened(a, retry_times_when_send_failed=2) as (producer, _):
        with pytest.raises(SendError, match=r"in 3 attempts: <broker-a at .* after 0, 0, 0 ms: ") as caught:
            await producer.send(message())
    assert str(caught.value).count("broker-a") == 1


async def test_S12_an_answer_that_is_final_is_not_tried_again(autojump_clock, opened):
    a, b = both([13] * 3, [13] * 3)
    async with opened(a, b) as (producer, _):
        with pytest.raises(BrokerError) as caught:
            await producer.send(message())
    assert caught.value.code == 13
    assert len(a.taken) + len(b.taken) == 1


async def test_S12_all_tries_share_one_deadline(autojump_clock, opened):
    a, b = both(["silence"] * 9, ["silence"] * 9)
    async with opened(a, b, send_timeout=3.0) as (producer, _):
        started = trio.current_time()
        with pytest.raises(SendError):
            await producer.send(message())
        assert trio.current_time() - started == pytest.approx(3.0, abs=0.1)
        started = trio.current_time()
        with pytest.raises(SendError):
            await producer.send(message(), timeout=0.5)
        assert trio.current_time() - started == pytest.approx(0.5, abs=0.1)


async def test_a_try_cut_off_by_the_deadline_is_one_whose_outcome_is_unknown(autojump_clock, opened):
    broker = SendBroker(script=["silence"])
    async with opened(broker) as (producer, _):
        with pytest.raises(RequestTimeoutError, match=r"no answer from .*may or may not"):
            await producer.send(message())  # the first one: no connection is there yet
    assert len(broker.taken) == 1


async def test_a_refused_try_does_not_hide_one_without_an_answer(autojump_clock, opened):
    a, b = both([], ["silence"] * 30)
    errors = []
    async with opened(a, b) as (producer, world):
        world.network.refuse(a.address)
        for _ in range(8):  # the turn begins anywhere: in eight sends it comes to the one that refuses
            with pytest.raises((RequestTimeoutError, SendError)) as caught:
                await producer.send(message(), timeout=0.5)
            errors.append(caught.value)
    several = [error for error in errors if isinstance(error, SendError)]
    assert several
    for error in several:
        kinds = [type(attempt.error) for attempt in error.attempts]
        assert kinds in ([ConnectError, RequestTimeoutError], [RequestTimeoutError, ConnectError, RequestTimeoutError])


async def test_S12_a_busy_broker_gets_a_moment(autojump_clock, opened):
    broker = SendBroker(script=[2, 2])
    async with opened(broker) as (producer, _):
        started = trio.current_time()
        assert (await producer.send(message())).status is SendStatus.SEND_OK
        assert 0 < trio.current_time() - started < 3
    assert len(broker.taken) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"queue": MessageQueue("T", "broker-a", 1)},
        {"selector": lambda queues, message, arg: next(arg), "arg": iter([MessageQueue("T", "broker-a", 1)])},
    ],
    ids=["queue", "selector"],
)
async def test_a_fixed_queue_is_tried_again_only_there(autojump_clock, opened, fields):
    a, b = both([14] * 9)
    async with opened(a, b) as (producer, _):
        with pytest.raises(SendError) as caught:
            await producer.send(message(), **fields)
    assert isinstance(caught.value.__cause__, ServiceNotAvailableError)
    assert [taken.header.queue_id for taken in a.taken] == [1, 1, 1]
    assert not b.taken


async def test_a_lesser_promise_may_be_tried_elsewhere_and_still_counts_as_stored(autojump_clock, opened):
    a, b = both([10], [10])
    async with opened(a, b, retry_another_broker_when_not_store_ok=True) as (producer, _):
        assert (await producer.send(message())).status is SendStatus.SEND_OK
    a, b = both([10] * 9, [12] * 9)
    async with opened(a, b, retry_another_broker_when_not_store_ok=True) as (producer, _):
        result = await producer.send(message())
        assert result.status is not SendStatus.SEND_OK
    assert len(a.taken) + len(b.taken) == 3


async def test_S2_a_send_that_is_called_back_has_its_own_number_of_tries(autojump_clock, opened):
    a, b = both([14] * 9, [14] * 9)
    outcomes = []
    async with opened(a, b, retry_times_when_send_async_failed=1) as (producer, _):
        producer.outside.start_send(producer.outside.prepare(message()), outcomes.append)
    assert len(a.taken) + len(b.taken) == 2
    assert isinstance(outcomes[0], SendError)


async def test_S2_called_back_sends_reach_any_queue_and_selector(autojump_clock, opened):
    broker = SendBroker()
    outcomes = []
    async with opened(broker) as (producer, _):
        producer.outside.start_send(producer.outside.prepare(message()), outcomes.append)
        to_one = choice_of(message(), MessageQueue("T", "broker-a", 1), None, None)
        producer.outside.start_send(producer.outside.prepare(message()), outcomes.append, choice=to_one)
        by_arg = choice_of(message(), None, lambda queues, m, arg: queues[arg], 3)
        producer.outside.start_send(producer.outside.prepare(message()), outcomes.append, choice=by_arg)
    assert [outcome.status for outcome in outcomes] == [SendStatus.SEND_OK] * 3
    assert {outcome.queue.queue_id for outcome in outcomes} >= {1, 3}


async def test_S6_no_name_server_at_all(autojump_clock, opened):
    async with opened(SendBroker(), namesrv="ns:1;ns:2", send_timeout=2.0) as (producer, _):
        with pytest.raises(NameServerUnreachableError) as caught:
            await producer.send(message())
    assert set(caught.value.tried) == {"ns:1", "ns:2"}


async def test_S6_a_name_server_that_never_answers_is_named_and_nothing_was_sent(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, world):
        world.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
        outcomes = []
        producer.outside.start_send(producer.outside.prepare(message()), outcomes.append)
        started = trio.current_time()
        with pytest.raises(NameServerUnreachableError, match=r"no name server has answered .* within 3 s .*ns:9876"):
            await producer.send(message())
        assert trio.current_time() - started <= 3.5
    assert broker.taken == []
    assert type(outcomes[0]) is NameServerUnreachableError


async def test_S6_one_name_server_down_is_no_trouble(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker, namesrv="ns:1;ns:9876") as (producer, _):
        await producer.send(message())
    assert len(broker.taken) == 1


async def test_S6_each_cause_of_no_route_is_its_own_error(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, world):
        with pytest.raises(TopicNotFoundError, match="Unknown"):
            await producer.send(Message("Unknown", b"x"))
        world.route("ReadOnly", broker, perm=4)
        with pytest.raises(TopicNotWritableError, match="ReadOnly"):
            await producer.send(Message("ReadOnly", b"x"))
        world.route("NoMaster", broker)
        slaves = world.name_server.routes["NoMaster"].broker_datas[0]
        slaves.broker_addrs = {1: slaves.broker_addrs[0]}
        with pytest.raises(BrokerUnreachableError, match="NoMaster"):
            await producer.send(Message("NoMaster", b"x"))


async def test_R2_a_broker_that_is_gone_is_a_connect_error(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker, retry_times_when_send_failed=0) as (producer, world):
        world.network.refuse(broker.address)
        with pytest.raises(ConnectError):
            await producer.send(message())


async def test_R2_a_connection_that_ends_under_way_says_that_the_outcome_is_unknown(autojump_clock, opened):
    broker = SendBroker(script=["hang up"])
    async with opened(broker, retry_times_when_send_failed=0) as (producer, _):
        with pytest.raises(ConnectionLostError, match="may or may not"):
            await producer.send(message())


async def test_a_broker_that_comes_back_is_used_again(autojump_clock, opened):
    broker = SendBroker(script=["hang up"])
    async with opened(broker, retry_times_when_send_failed=0) as (producer, _):
        with pytest.raises(ConnectionLostError):
            await producer.send(message())
        assert (await producer.send(message())).status is SendStatus.SEND_OK


@pytest.mark.parametrize("fields", [{}, {"queue": MessageQueue("T", "broker-a", 1)}], ids=["any queue", "one queue"])
async def test_a_broker_that_has_moved_is_found_where_it_is_now(autojump_clock, opened, fields):
    before, after = SendBroker(), SendBroker()
    async with opened(before) as (producer, world), after.open(world.network):
        for _ in range(8):
            await producer.send(message(), **fields)
        world.route("T", after)
        await producer.client.routes.refresh("T")
        for _ in range(8):  # the old one would still answer
            await producer.send(message(), **fields)
    assert (len(before.taken), len(after.taken)) == (8, 8)


async def test_a_slow_broker_rests_when_latency_counts(autojump_clock, opened):
    a, b = both([14])
    async with opened(a, b, send_latency_enable=True) as (producer, _):
        for _ in range(20):
            await producer.send(message())
        assert len(a.taken) <= 1
        assert len(b.taken) == 20
        await trio.sleep(601)
        for _ in range(8):
            await producer.send(message())
    assert len(a.taken) > 1


async def test_threat_L8_cancelling_a_send_leaves_nothing_behind(autojump_clock, opened):
    broker = SendBroker(script=["silence"])
    async with opened(broker) as (producer, _):
        await producer.queues("T")
        with trio.move_on_after(0.5) as scope:
            await producer.send(message())
        assert scope.cancelled_caught
        [connection] = [
            producer.client.pool.nowait(address)
            for address in producer.client.pool.addresses()
            if "9876" not in address
        ]
        assert connection.statistics().in_flight == 0
        assert (await producer.send(message())).status is SendStatus.SEND_OK


async def test_threat_F16_many_tasks_share_one_producer(autojump_clock, opened):
    broker = SendBroker()
    results = []
    async with opened(broker) as (producer, _):

        async def one(number):
            results.append((await producer.send(message(keys=[str(number)]))).message_id)

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(one, number)
    assert len(set(results)) == 200
    by_key = {taken.properties["KEYS"]: taken.properties["UNIQ_KEY"] for taken in broker.taken}
    assert set(by_key.values()) == set(results)


@pytest.mark.parametrize("size", [1, 2 * 1024 * 1024], ids=["written in a turn", "waits to be read"])
async def test_a_oneway_send_does_not_say_that_nothing_was_sent_once_it_is_written(autojump_clock, opened, size):
    async with opened(SendBroker(), compress_body_over=10**9) as (producer, world), trio.open_nursery() as nursery:
        sent = await producer.send(message())
        for link in world.network.links():
            link.pause()
        address = producer.client.routes.broker_address(sent.queue.broker_name)
        connection = producer.client.pool.nowait(address)

        async def close():
            while not connection._transport.pending:
                await trio.lowlevel.checkpoint()
            connection.close()

        async def send_much():
            for _ in range(100):
                await producer.send_oneway(Message("T", b"x" * size), queue=sent.queue)

        nursery.start_soon(close)
        with pytest.raises(ConnectionLostError, match="whether the last message arrives is unknown") as caught:
            await send_much()
        assert not caught.value.nothing_sent


async def test_a_oneway_send_of_another_surface_has_the_deadline_of_its_call(autojump_clock, opened):
    async with opened(SendBroker(), compress_body_over=10**9) as (producer, world):
        queue = (await producer.send(message())).queue
        for link in world.network.links():
            link.pause()
        large = Message("T", b"x" * (2 * 1024 * 1024))
        outgoing = producer.outside.prepare(large)
        terms = Terms(fixed(large, queue), 1, trio.current_time() + 0.25, 1.0, None)  # some of its second has passed

        async def send_much():
            for _ in range(8):
                await producer.outside.send_oneway(outgoing, terms)

        started = trio.current_time()
        with pytest.raises(RequestTimeoutError, match=r"has not read for 1 s"):
            await send_much()
        assert trio.current_time() - started == pytest.approx(0.25, abs=0.01)


async def test_a_oneway_send_to_a_broker_that_does_not_read_ends_at_its_deadline(autojump_clock, opened):
    async with opened(SendBroker(), send_timeout=1.0, compress_body_over=10**9) as (producer, world):
        queue = (await producer.send(message())).queue
        for link in world.network.links():
            link.pause()

        async def send_much():
            for _ in range(8):
                await producer.send_oneway(Message("T", b"x" * (2 * 1024 * 1024)), queue=queue)

        started = trio.current_time()
        with pytest.raises(RequestTimeoutError, match="read"):
            await send_much()
        assert trio.current_time() - started == pytest.approx(1.0, abs=0.1)


async def test_a_send_under_way_survives_that_its_broker_leaves_the_route(autojump_clock, nursery, opened):
    first, last = SlowBroker("broker-a", nursery), SlowBroker("broker-b", nursery)
    async with opened(first, last, poll_name_server_interval=0.5) as (producer, world):
        await producer.queues("T")
        world.route("T", first)
        result = await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-b", 0))
        assert result.queue.broker_name == "broker-b"
        assert result.status is SendStatus.SEND_OK
        assert not first.taken
        assert len(last.taken) == 1
        await trio.sleep(0.1)
        assert last.address not in {each.address for each in producer.client.pool.connections()}
        assert not last.server.connections
