"""What is told how a send went is told exactly once, however it ends and whatever has ended before it."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.sends import send_drivers
from rocketpy.errors import ClientClosedError, ConnectionLostError, RequestTimeoutError, RocketMQError
from rocketpy.message import Message
from rocketpy.producer import Producer
from rocketpy.producer.choosing import choice_of
from rocketpy.results import SendResult
from rocketpy.wire.codes import RequestCode
from tests.producer.brokers import SendBroker, World


@asynccontextmanager
async def producing(*script, **settings):
    world, broker = World(), SendBroker(script=script)
    async with world.name_server.open(world.network, 9876), broker.open(world.network):
        world.route("T", broker)
        async with Producer("pg", network=world.network, namesrv="ns:9876", **settings) as producer:
            yield producer, broker


def start(producer, done, nursery, **fields):
    """As `Outside.start_send`, in a nursery of the test's choice."""
    options = {"choice": None, "tries": 2, "timeout": 3.0} | fields
    outgoing = producer.outside.prepare(Message("T", b"x"))
    send_drivers.start_send(producer._core, outgoing, done, nursery=nursery, **options)


ENDINGS = {
    "it is stored": ([0, 0], SendResult),
    "it is refused": ([0, 13], RocketMQError),
    "the connection ends": ([0, "hang up", "hang up"], ConnectionLostError),
    "no answer comes": ([0, "silence"], RequestTimeoutError),
    "the second try is stored": ([0, 14, 0], SendResult),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_R4_a_callback_runs_once_however_the_send_ends(autojump_clock, ending):
    script, kind = ENDINGS[ending]
    outcomes = []
    async with producing(*script, retry_times_when_send_async_failed=1) as (producer, _):
        await producer.send(Message("T", b"first"))
        producer.outside.start_send(producer.outside.prepare(Message("T", b"x")), outcomes.append)
        await trio.sleep(60)
    [outcome] = outcomes
    cause = outcome.attempts[0].error if hasattr(outcome, "attempts") else outcome
    assert isinstance(cause, kind)


@pytest.mark.parametrize("script", [[14], ["hang up"], [1500]])
async def test_R4_a_callback_runs_once_when_the_nursery_of_the_retries_has_ended(autojump_clock, script):
    outcomes = []
    async with producing(0, *script) as (producer, _):
        await producer.send(Message("T", b"first"))
        async with trio.open_nursery() as nursery:
            pass
        start(producer, outcomes.append, nursery)
        await trio.sleep(60)
    [outcome] = outcomes
    assert isinstance(outcome, ClientClosedError)


async def test_R4_a_callback_runs_once_when_the_nursery_ended_before_the_send_began(autojump_clock):
    outcomes = []
    async with producing(0) as (producer, broker):
        async with trio.open_nursery() as nursery:
            pass
        start(producer, outcomes.append, nursery)
        assert [type(outcome) for outcome in outcomes] == [ClientClosedError]
        await trio.sleep(10)
    assert len(outcomes) == 1
    assert not broker.taken


@pytest.mark.parametrize("script", [["silence"], [14, "silence"], [14, 14]])
async def test_R4_a_callback_runs_once_when_its_nursery_is_cancelled(autojump_clock, script):
    outcomes = []
    async with producing(0, *script) as (producer, _):
        await producer.send(Message("T", b"first"))
        async with trio.open_nursery() as nursery:
            start(producer, outcomes.append, nursery)
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        await trio.sleep(60)
    assert len(outcomes) == 1
    assert isinstance(outcomes[0], RocketMQError)


async def test_R4_a_callback_runs_once_when_the_producer_closes_under_it(autojump_clock):
    outcomes = []
    async with producing(0, *["silence"] * 9, close_timeout=1.0, send_timeout=30.0) as (producer, _):
        await producer.send(Message("T", b"first"))
        for _ in range(5):
            producer.outside.start_send(producer.outside.prepare(Message("T", b"x")), outcomes.append)
    assert len(outcomes) == 5
    await trio.sleep(60)
    assert len(outcomes) == 5
    assert all(isinstance(outcome, RocketMQError) for outcome in outcomes)


class Meddler:
    """A hook that fails where the test says."""

    def __init__(self, where):
        self.where = where

    def before_request(self, address, command):
        self._meet("before", command)

    def after_answer(self, address, command, answer):
        self._meet("after", command)

    def _meet(self, where, command):
        if where == self.where and command.code == RequestCode.SEND_MESSAGE_V2:
            raise KeyError("mine")


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("where", ["before", "after"])
async def test_R4_what_a_hook_raises_is_told_once_and_ends_nothing_else(autojump_clock, where, is_warm):
    world, broker = World(), SendBroker()
    meddler, outcomes = Meddler("nowhere"), []
    async with (
        world.name_server.open(world.network, 9876),
        broker.open(world.network),
        MQClientInstance(network=world.network, namesrv="ns:9876", hooks=[meddler]) as client,
        Producer("pg", client=client) as producer,
    ):
        world.route("T", broker)
        if is_warm:
            await producer.send(Message("T", b"first"))
        meddler.where = where
        try:
            producer.outside.start_send(producer.outside.prepare(Message("T", b"x")), outcomes.append)
        except KeyError as error:
            outcomes.append(error)
        await trio.sleep(60)
        meddler.where = "nowhere"
        await producer.send(Message("T", b"last"))
    assert [type(outcome) for outcome in outcomes] == [KeyError]


async def test_R4_what_a_selector_raises_before_there_is_a_route_is_told_once_and_ends_nothing_else(autojump_clock):
    def broken(queues, message, arg):
        raise KeyError("mine")

    outcomes = []
    async with producing() as (producer, _):
        message = Message("T", b"x")
        producer.outside.start_send(
            producer.outside.prepare(message), outcomes.append, choice=choice_of(message, None, broken, None)
        )
        await trio.sleep(60)
        await producer.send(Message("T", b"last"))
    assert [type(outcome) for outcome in outcomes] == [KeyError]
