"""The rule of retries as a matrix: which failure of which way to send is tried again, where, after what pause."""

from __future__ import annotations

from itertools import product

import pytest
import trio

from rocketpy.client.retries import TABLE, Failure, NextAttempt, SendKind
from rocketpy.errors import (
    ConnectError,
    ConnectionLostError,
    RequestTimeoutError,
    RocketMQError,
    SendError,
    SendManyError,
    unsent,
)
from rocketpy.message import Message, MessageQueue
from rocketpy.producer.choosing import choice_of
from rocketpy.results import SendResult
from tests.producer.brokers import SendBroker

QUEUE = MessageQueue("T", "broker-a", 2)


class Log:
    """What brokers were asked, in order, and when."""

    def __init__(self, script):
        self.script = list(script)
        self.taken = []

    def brokers(self, *names):
        return tuple(Logged(name, self) for name in names)

    @property
    def places(self):
        return [(name, queue) for name, queue, _, _ in self.taken]

    @property
    def times(self):
        return [when for _, _, when, _ in self.taken]

    @property
    def bodies(self):
        return [body for _, _, _, body in self.taken]


class Logged(SendBroker):
    """Takes its steps from the script that all brokers share: the first of them hits the broker that is asked first."""

    def __init__(self, name, log):
        super().__init__(name)
        self.log, self.script = log, log.script

    def send(self, connection, request):
        answer = super().send(connection, request)
        last = self.taken[-1]
        self.log.taken.append((self.name, last.header.queue_id, trio.current_time(), last.body))
        return answer


def message(**fields):
    return Message("T", b"hello", **fields)


async def called_back(producer, outgoing, *, queue=None, selector=None, arg=None, **fields):
    outcomes, ended = [], trio.Event()
    choice = choice_of(outgoing.message, queue, selector, arg)
    producer.outside.start_send(
        outgoing, lambda outcome: (outcomes.append(outcome), ended.set()), choice=choice, **fields
    )
    await ended.wait()
    [outcome] = outcomes
    if isinstance(outcome, SendResult):
        return outcome
    raise outcome


def chooses_once(queues, message, arg):
    """A selector that would choose another queue if it was asked again."""
    arg.append(None)
    return QUEUE if len(arg) == 1 else queues[0]


PLAIN = {
    "send": lambda p: p.send(message()),
    "called back": lambda p: called_back(p, p.outside.prepare(message())),
    "batch": lambda p: p.send_batch([message(), message()]),
    "many": lambda p: p.send_many([message(), message()]),
}
FIXED = {
    "keyed": lambda p: p.send(message(sharding_key="k")),
    "keyed, called back": lambda p: called_back(p, p.outside.prepare(message(sharding_key="k"))),
    "keyed batch": lambda p: p.send_batch([message(sharding_key="k"), message(sharding_key="k")]),
    "keyed many": lambda p: p.send_many([message(sharding_key="k"), message(sharding_key="k")]),
    "queue": lambda p: p.send(message(), queue=QUEUE),
    "queue, called back": lambda p: called_back(p, p.outside.prepare(message()), queue=QUEUE),
    "batch to a queue": lambda p: p.send_batch([message()], queue=QUEUE),
    "selector": lambda p: p.send(message(), selector=chooses_once, arg=[]),
    "selector, called back": lambda p: called_back(p, p.outside.prepare(message()), selector=chooses_once, arg=[]),
}
NOT_STORED = {"busy": 2, "flow control": 215, "no topic": 17, "not available": 14, "no permission": 16, "go away": 1500}
UNKNOWN = {"system error": 1, "hang up": "hang up", "silence": "silence"}
FINAL = {"illegal": 13, "of no meaning": 999}
START = pytest.mark.parametrize("start", ["warm", "cold"])
MOSTLY_WARM = pytest.mark.parametrize("start", ["warm", pytest.param("cold", marks=pytest.mark.matrix)])
"""Where a cold start only repeats what others show of it."""


async def warm(producer, start):
    """Have routes and connections at hand, or not."""
    if start == "warm":
        for queue in await producer.queues("T"):
            await producer.send(Message("T", b"warm"), queue=queue)


async def run(opened, start, script, names, send, **settings):
    """Send once with a script; what brokers were asked, what came of it, and when it began."""
    log = Log([])
    brokers = log.brokers(*names)
    async with opened(*brokers, **settings) as (producer, _):
        await warm(producer, start)
        log.taken.clear()
        log.script.extend(script)
        began = trio.current_time()
        try:
            outcome = await send(producer)
        except RocketMQError as error:
            outcome = error
    return log, outcome, began


def reason(outcome):
    """The error of the try, of whatever it is the cause."""
    while isinstance(outcome, SendError | SendManyError):
        outcome = outcome.__cause__
    return outcome


@START
@pytest.mark.parametrize("way", PLAIN)
@pytest.mark.parametrize("failure", {**NOT_STORED, **UNKNOWN})
async def test_a_plain_send_goes_on_at_another_broker_at_once(autojump_clock, opened, way, failure, start):
    step = {**NOT_STORED, **UNKNOWN}[failure]
    log, outcome, _ = await run(opened, start, [step], ["broker-a", "broker-b"], PLAIN[way])
    assert not isinstance(outcome, Exception)
    first, second = log.places
    assert (first[0] == second[0]) is (failure == "go away")  # that is the same try over another connection
    assert log.times[1] - log.times[0] == (1.5 if failure == "silence" else 0)


@MOSTLY_WARM
@pytest.mark.parametrize("way", FIXED)
@pytest.mark.parametrize("failure", NOT_STORED)
async def test_what_was_surely_not_stored_goes_to_the_same_queue_again(autojump_clock, opened, way, failure, start):
    log, outcome, _ = await run(opened, start, [NOT_STORED[failure]], ["broker-a", "broker-b"], FIXED[way])
    assert not isinstance(outcome, Exception)
    first, second = log.places
    assert first == second
    least, most = (0, 0) if failure == "go away" else (0.01, 0.02)
    assert least <= log.times[1] - log.times[0] <= most


@START
@pytest.mark.parametrize("way", FIXED)
@pytest.mark.parametrize("failure", UNKNOWN)
async def test_what_may_be_stored_in_its_queue_is_not_sent_again(autojump_clock, opened, way, failure, start):
    log, outcome, _ = await run(opened, start, [UNKNOWN[failure]], ["broker-a", "broker-b"], FIXED[way])
    assert isinstance(outcome, RocketMQError)
    assert not reason(outcome).nothing_sent
    assert len(log.taken) == 1


@MOSTLY_WARM
@pytest.mark.parametrize("way", [*PLAIN, *FIXED])
@pytest.mark.parametrize("failure", FINAL)
async def test_a_final_answer_is_final(autojump_clock, opened, way, failure, start):
    log, outcome, _ = await run(opened, start, [FINAL[failure]] * 9, ["broker-a", "broker-b"], {**PLAIN, **FIXED}[way])
    assert reason(outcome).code == FINAL[failure]
    if "many" not in way:  # which parts a frame that is refused for its content
        assert len(log.taken) == 1


@MOSTLY_WARM
@pytest.mark.parametrize("way", [*PLAIN, *FIXED])
@pytest.mark.parametrize("retries", [0, 2, 4])
async def test_threat_L6_the_number_of_tries_is_one_and_the_retries(autojump_clock, opened, way, retries, start):
    settings = {"retry_times_when_send_failed": retries, "retry_times_when_send_async_failed": retries}
    log, outcome, _ = await run(opened, start, [14] * 99, ["broker-a"], {**PLAIN, **FIXED}[way], **settings)
    assert len(log.taken) == 1 + retries
    assert reason(outcome).code == 14


@START
@pytest.mark.parametrize("way", [*PLAIN, *FIXED])
async def test_one_broker_that_is_busy_gets_a_growing_pause(autojump_clock, opened, way, start):
    log, outcome, _ = await run(opened, start, [2, 2], ["broker-a"], {**PLAIN, **FIXED}[way])
    assert not isinstance(outcome, Exception)
    first, second, third = log.times
    assert 0.01 <= second - first <= 0.02
    assert 0.02 <= third - second <= 0.04


@MOSTLY_WARM
@pytest.mark.parametrize("way", PLAIN)
async def test_each_broker_at_hand_is_asked_before_one_that_is_busy_is_asked_again(autojump_clock, opened, way, start):
    names = ["broker-a", "broker-b", "broker-c"]
    log, _, _ = await run(
        opened,
        start,
        [2, 2, 2],
        names,
        PLAIN[way],
        retry_times_when_send_failed=3,
        retry_times_when_send_async_failed=3,
    )
    assert sorted(name for name, _ in log.places[:3]) == names
    assert log.times[0] == log.times[2]
    assert log.times[3] > log.times[2]


# --- nobody there --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", FIXED)
async def test_a_queue_whose_broker_takes_no_connection_is_tried_again_there(autojump_clock, opened, way):
    log = Log([])
    a, b = log.brokers("broker-a", "broker-b")
    async with opened(a, b) as (producer, world), trio.open_nursery() as nursery:
        await producer.queues("T")
        for broker in (a, b):
            world.network.refuse(broker.address)

        async def come_back():
            await trio.sleep(0.05)
            for broker in (a, b):
                world.network.heal(broker.address)

        nursery.start_soon(come_back)
        await FIXED[way](producer)
    assert len(log.taken) == 1


@pytest.mark.parametrize("way", [*PLAIN, *FIXED])
async def test_when_nobody_takes_a_connection_it_is_certain_that_nothing_was_sent(autojump_clock, opened, way):
    log = Log([])
    a, b = log.brokers("broker-a", "broker-b")
    async with opened(a, b) as (producer, world):
        await producer.queues("T")
        for broker in (a, b):
            world.network.refuse(broker.address)
        with pytest.raises(RocketMQError) as caught:
            await {**PLAIN, **FIXED}[way](producer)
    outcome = caught.value.__cause__ if "many" in way else caught.value
    assert isinstance(outcome, SendError)
    assert outcome.nothing_sent
    assert all(isinstance(attempt.error, ConnectError) for attempt in outcome.attempts)
    assert not log.taken


async def test_a_plain_oneway_message_goes_elsewhere_where_nothing_was_written(autojump_clock, opened):
    log = Log([])
    a, b = log.brokers("broker-a", "broker-b")
    async with opened(a, b) as (producer, world):
        await producer.queues("T")
        world.network.refuse(a.address)
        for _ in range(8):
            await producer.send_oneway(message())
        await trio.sleep(1)
        assert [name for name, _ in log.places] == ["broker-b"] * 8
        with pytest.raises(SendError) as caught:
            await producer.send_oneway(message(), queue=QUEUE)
        assert len(caught.value.attempts) == 3
        assert caught.value.nothing_sent


async def test_a_oneway_message_for_one_queue_waits_for_a_master_of_its_broker(autojump_clock, opened):
    log = Log([])
    a, b = log.brokers("broker-a", "broker-b")
    async with opened(a, b) as (producer, world):
        world.route("T", b)
        world.name_server.routes["T"].order_topic_conf = "broker-a:4;broker-b:4"
        await producer.queues("T")
        world.route("T", a, b)
        await producer.send_oneway(message(), queue=QUEUE)
        await trio.sleep(1)
    assert log.places == [(QUEUE.broker_name, QUEUE.queue_id)]


# --- bounds of tries -----------------------------------------------------------------------------------


@START
@pytest.mark.parametrize("way", PLAIN)
async def test_threat_L6_a_hung_broker_leaves_time_for_another(autojump_clock, opened, way, start):
    log, outcome, began = await run(opened, start, ["silence"], ["broker-a", "broker-b"], PLAIN[way])
    assert not isinstance(outcome, Exception)
    assert log.times == [began, began + 1.5]


@MOSTLY_WARM
@pytest.mark.parametrize("way", [*PLAIN, *FIXED])
async def test_where_no_other_broker_can_take_it_a_try_has_all_the_time(autojump_clock, opened, way, start):
    log, outcome, began = await run(opened, start, ["silence"] * 9, ["broker-a"], {**PLAIN, **FIXED}[way])
    assert isinstance(reason(outcome), RequestTimeoutError)
    assert log.times == [began]


@MOSTLY_WARM
@pytest.mark.parametrize("way", [*PLAIN, *FIXED])
async def test_a_bound_of_each_try_can_be_set(autojump_clock, opened, way, start):
    send = {**PLAIN, **FIXED}[way]
    log, outcome, began = await run(
        opened, start, ["silence"] * 2, ["broker-a"], send, send_msg_max_timeout_per_request=0.4
    )
    if way in PLAIN:
        assert not isinstance(outcome, Exception)
        assert log.times == pytest.approx([began, began + 0.4, began + 0.8])
    else:
        assert isinstance(reason(outcome), RequestTimeoutError)
        assert log.times == [began]


@pytest.mark.parametrize("way", PLAIN)
async def test_a_broker_that_does_not_even_take_the_connection_leaves_time_for_another(autojump_clock, opened, way):
    log = Log([])
    a, b = log.brokers("broker-a", "broker-b")
    async with opened(a, b, connect_timeout=30) as (producer, world):
        await producer.queues("T")
        world.network.hang(a.address)
        for _ in range(4):
            await PLAIN[way](producer)
    assert {name for name, _ in log.places} == {"broker-b"}


# --- the table ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "failure"), [*product(SendKind, Failure)])
def test_the_table_says_something_about_everything_and_never_stores_twice_where_order_counts(kind, failure):
    again = TABLE[kind][failure]
    if failure is Failure.FINAL:
        assert again is NextAttempt.NO
    if kind in (SendKind.KEYED, SendKind.QUEUE, SendKind.FRAME):
        assert again is not NextAttempt.ELSEWHERE
    if kind not in (SendKind.PLAIN, SendKind.REPLY) and failure in (Failure.UNKNOWN, Failure.WEAK):
        assert again is NextAttempt.NO


def test_an_error_says_whether_anything_was_sent():
    assert ConnectError("away").nothing_sent
    assert not ConnectionLostError("lost").nothing_sent
    assert unsent(ConnectionLostError("closed before")).nothing_sent
