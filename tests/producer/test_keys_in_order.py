"""Sends of one sharding key that are under way together: in the order of the calls, whatever happens to them."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from rocketpy.errors import BrokerUnreachableError, ClientClosedError, ConfigError, RequestTimeoutError, SendError
from rocketpy.message import Message
from rocketpy.results import SendResult
from tests.producer.brokers import SendBroker
from tests.producer.test_rule_of_retries import Log


def keyed(number, key="k"):
    return Message("T", b"%d" % number, sharding_key=key)


async def gather(producer, count, outcomes):
    """Sends of tasks that begin in order."""
    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(one, producer, number, outcomes)
            await trio.lowlevel.cancel_shielded_checkpoint()


async def one(producer, number, outcomes):
    outcomes.append(await producer.send(keyed(number)))


async def call_back(producer, count, outcomes):
    ended = trio.Event()

    def done(outcome):
        outcomes.append(outcome)
        if len(outcomes) == count:
            ended.set()

    for number in range(count):
        producer.outside.start_send(producer.outside.prepare(keyed(number)), done)
    await ended.wait()
    assert all(isinstance(outcome, SendResult) for outcome in outcomes)


FAILURES = {"none": [], "busy": [2, 0, 2, 14, 0, 17], "go away": [0, 1500, 0]}


@pytest.mark.parametrize("send", [gather, call_back])
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
async def test_they_are_stored_in_the_order_of_the_calls(autojump_clock, opened, send, failure, is_warm):
    log, outcomes = Log([]), []
    async with opened(*log.brokers("broker-a", "broker-b")) as (producer, _):
        if is_warm:
            await producer.send(keyed(0))
            log.taken.clear()
        log.script.extend(FAILURES[failure])
        await send(producer, 20, outcomes)
        assert len(producer._core.order) == 0
    stored = list(dict.fromkeys(log.bodies))  # a refused one comes again at once, before any other
    assert stored == [b"%d" % number for number in range(20)]
    assert log.bodies == sorted(log.bodies, key=int)
    assert len(set(log.places)) == 1


@pytest.mark.parametrize("send", [gather, call_back])
async def test_they_are_in_order_after_a_restart_of_the_broker(autojump_clock, opened, send):
    log, outcomes = Log([]), []
    (a,) = log.brokers("broker-a")
    async with opened(a) as (producer, world), trio.open_nursery() as nursery:
        await producer.send(keyed(0))
        log.taken.clear()
        world.network.refuse(a.address)
        world.network.cut(a.address)
        await trio.sleep(0.001)  # seen, so that nothing is written to what has gone

        async def come_back():
            await trio.sleep(0.02)
            world.network.heal(a.address)

        nursery.start_soon(come_back)
        await send(producer, 10, outcomes)
    assert log.bodies == [b"%d" % number for number in range(10)]


async def test_other_keys_do_not_wait(autojump_clock, opened):
    log, ended = Log([]), []
    async with opened(*log.brokers("broker-a")) as (producer, _):
        await producer.send(keyed(0, "other"))
        log.script.append("silence")
        producer.outside.start_send(producer.outside.prepare(keyed(1)), ended.append)
        producer.outside.start_send(producer.outside.prepare(keyed(2)), ended.append)
        began = trio.current_time()
        await producer.send(keyed(3, "other"))
        assert trio.current_time() == began
        assert not ended


@pytest.mark.parametrize("awaited", [True, False])
async def test_waiting_for_the_turn_counts_against_the_deadline(autojump_clock, opened, awaited):
    log, outcomes = Log([]), []
    async with opened(*log.brokers("broker-a"), send_timeout=30.0) as (producer, _):
        await producer.send(keyed(0))
        log.script.append("silence")
        producer.outside.start_send(producer.outside.prepare(keyed(1)), outcomes.append)
        began = trio.current_time()
        if awaited:
            with pytest.raises(RequestTimeoutError) as caught:
                await producer.send(keyed(2), timeout=2.0)
            error = caught.value
        else:
            second = []
            producer.outside.start_send(producer.outside.prepare(keyed(2)), second.append, timeout=2.0)
            await trio.sleep(2.001)
            [error] = second
        assert "'k'" in str(error)
        assert "nothing was sent" in str(error)
        assert error.nothing_sent
        assert trio.current_time() - began == pytest.approx(2.0, abs=0.01)
        assert (await producer.send(keyed(3), timeout=60)).queue_offset == 2  # when the first one has run out
    assert log.bodies == [b"0", b"1", b"3"]


async def test_a_turn_that_nobody_wants_any_more_is_passed_over(autojump_clock, opened):
    log, outcomes = Log([]), []
    async with opened(*log.brokers("broker-a")) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(keyed(0))
        log.script.append("silence")
        producer.outside.start_send(producer.outside.prepare(keyed(1)), outcomes.append)
        give_up = producer.outside.start_send(producer.outside.prepare(keyed(2)), outcomes.append)
        scope = trio.CancelScope()

        async def cancelled():
            with scope:
                await producer.send(keyed(3))

        nursery.start_soon(cancelled)
        await trio.sleep(0.5)
        producer.outside.start_send(producer.outside.prepare(keyed(4)), outcomes.append)
        give_up()
        scope.cancel()
        assert [type(outcome) for outcome in outcomes] == [ClientClosedError]
        await trio.sleep(10)
        assert len(producer._core.order) == 0
    assert log.bodies == [b"0", b"1", b"4"]
    assert len(outcomes) == 3


async def test_a_producer_that_is_left_by_an_exception_tells_those_that_wait(autojump_clock, opened):
    log, outcomes = Log([]), []
    async with opened(*log.brokers("broker-a"), enter=False) as (producer, _):
        with pytest.raises(KeyError):
            await left_by_an_exception(producer, log, outcomes)
        assert len(outcomes) == 3
    assert log.bodies == [b"0", b"1"]


async def left_by_an_exception(producer, log, outcomes):
    async with producer:
        await producer.send(keyed(0))
        log.script.append("silence")
        for number in range(1, 4):
            producer.outside.start_send(producer.outside.prepare(keyed(number)), outcomes.append)
        await trio.sleep(0.1)
        raise KeyError("mine")


async def test_an_ordered_topic_with_a_dead_broker_serves_the_keys_of_the_other(autojump_clock, opened):
    a, b = SendBroker("broker-a"), SendBroker("broker-b")
    async with opened(a, b) as (producer, world):
        world.route("T", b)
        world.name_server.routes["T"].order_topic_conf = "broker-a:2;broker-b:2"
        stored, refused = [], []
        for key in "abcdefgh":
            try:
                stored.append((await producer.send(keyed(0, key))).queue.broker_name)
            except SendError as error:
                refused.append(error)
        assert stored == ["broker-b"] * 4
        for error in refused:
            assert [type(attempt.error) for attempt in error.attempts] == [BrokerUnreachableError] * 3
            assert error.nothing_sent
            assert "broker-a of T has no master now" in str(error)
        for _ in range(8):  # what has no key goes where somebody is, from whichever queue the turn comes to
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-b"
            await producer.send_oneway(Message("T", b"x"))
    assert not a.taken


async def test_a_batch_goes_by_one_key_or_none(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        for keys in (["k", "l"], ["k", None], [None, "k"]):
            batch = [Message("T", b"x", sharding_key=key) for key in keys]
            with pytest.raises(ConfigError, match="different sharding keys"):
                await producer.send_batch(batch)
        assert not broker.taken
        await producer.send_batch([keyed(1), keyed(2)])
        await producer.send_batch([Message("T", b"x")] * 2)
    assert len(broker.taken) == 2


# --- a time of delivery ---------------------------------------------------------------------------------


def timed():
    return Message("T", b"later", delay=5)


WAYS = {
    "send": lambda p: p.send(timed()),
    "one-way": lambda p: p.send_oneway(timed()),
    "many": lambda p: p.send_many([timed()], on_failure=partial(raise_cause)),
}


def raise_cause(failure):
    raise failure.__cause__


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("version", [401, 413, 479, 0], ids=["4.9.4", "5.0.0", "5.3.3", "unknown"])
async def test_a_delivery_time_is_sent_to_brokers_that_know_it(autojump_clock, opened, caplog, version, is_warm, way):
    broker = SendBroker()
    broker.version = version
    async with opened(broker) as (producer, _):
        if is_warm:
            await producer.send(Message("T", b"x"))
            await trio.sleep(1)  # the heartbeat has its answer
        broker.taken.clear()
        if 0 < version < 412:
            with pytest.raises(ConfigError, match=r"older than RocketMQ 5 .* nothing was sent; use delay_level"):
                await WAYS[way](producer)
            assert not broker.taken
        else:
            for _ in range(3):
                await WAYS[way](producer)
            await trio.sleep(1)
            assert len(broker.taken) == 3
        await producer.send(Message("T", b"x", delay_level=3))
    warnings = [record for record in caplog.records if "does not report its version" in record.getMessage()]
    assert len(warnings) == (version == 0)
