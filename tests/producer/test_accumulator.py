"""The accumulator by itself: when threads that wait for their messages wake the trio thread, and when they need not."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest
import trio
import trio.testing
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.config import ProducerConfig
from rocketpy.message import MessageQueue
from rocketpy.producer.accumulator import Accumulator
from rocketpy.producer.batching import Batch
from rocketpy.producer.items import Head, LingeringMessage
from rocketpy.remoting.timers import Timers

LINGER = 0.05
QUEUE = MessageQueue("Orders", "broker-a", 0)
LARGEST = 1000
MOST_IN_FRAME = 1200


class Sink:
    is_gone = False

    def __init__(self):
        self.outcomes = []

    def hear(self, outcome):
        self.outcomes.append(outcome)


class Starter:
    """Keeps the batches under way until `land` is called; with an error it raises that at once."""

    def __init__(self):
        self.batches = []
        self.under_way = []
        self.count = 0
        self.error = None
        self.before = lambda: None
        self.has_route = trio.Event()
        self.nursery = None

    async def ensure_route(self, topic, *, timeout):
        await self.has_route.wait()

    def start_soon(self, function):
        self.nursery.start_soon(function)

    def start_batch(self, outgoing, queue, tries, timeout, done):
        self.before()
        if self.error is not None:
            raise self.error
        self.batches.append(outgoing)
        self.under_way.append(done)

    def land(self):
        self.under_way.pop(0)(OSError("no result is needed here"))

    def note_begun(self):
        self.count += 1

    def note_ended(self):
        self.count -= 1


class Threads:
    """Messages of threads, and the calls that the threads have posted."""

    def __init__(self, accumulator):
        self._accumulator = accumulator
        self.posts = []
        accumulator.attach(self.posts.append, has_threads=True)

    def send(self, body, topic="Orders", sharding_key=None, waits=True):
        sink, head = Sink(), Head(b"", None, "true", sharding_key)
        deadline = trio.current_time() + 3
        self._accumulator.drop_in(
            LingeringMessage(topic, body, 0, head, None, sink, None, 3.0, 1, deadline, waits=waits)
        )
        return sink

    def hurry(self):
        """Have every batch sent, as one who waits for a future does."""
        self._accumulator.hurry()

    def close(self):
        """Close the accumulator."""
        self._accumulator.close()

    def run(self):
        """Make the calls that have been posted."""
        for call in self.posts[:]:
            self.posts.remove(call)
            call()


@pytest.fixture
async def starter():
    return Starter()


@pytest.fixture
async def threads(autojump_clock, nursery, starter):
    """With a message under way already."""
    timers = Timers()
    nursery.start_soon(timers.run)
    config = ProducerConfig(group="pg", namesrv="127.0.0.1:9876", linger=LINGER, batch_max_bytes=LARGEST)
    starter.nursery = nursery
    info = SimpleNamespace(queues=(QUEUE,))
    routes = SimpleNamespace(publish_info=lambda topic: info if starter.has_route.is_set() else None)
    client = SimpleNamespace(pool=SimpleNamespace(timers=timers), routes=routes)
    core = SimpleNamespace(config=config, clock=trio.current_time, client=client)
    accumulator = Accumulator(core, starter, lambda count: ["ID"] * count)
    accumulator.start()
    made = Threads(accumulator)
    made.send(b"first")
    made.run()
    assert bodies(starter) == [1]
    return made


def bodies(starter):
    """How many messages each batch has had."""
    return [1 if not each.is_batch else len(each.message_id.split(",")) for each in starter.batches]


async def test_S17_threads_leave_their_messages_for_the_batch_under_way(threads, starter):
    for number in range(5):
        threads.send(b"%d" % number)
    assert not threads.posts
    starter.land()
    assert bodies(starter) == [1, 5]
    starter.land()
    threads.send(b"later")
    assert len(threads.posts) == 1
    threads.run()
    starter.land()
    assert bodies(starter) == [1, 5, 1]
    assert starter.count == 0


async def test_S17_a_message_to_another_topic_does_not_wait_for_that_batch(threads, starter):
    threads.send(b"other", topic="Others")
    assert len(threads.posts) == 1
    threads.run()
    assert bodies(starter) == [1, 1]


async def test_S17_a_message_with_a_sharding_key_does_not_wait_for_one_without(threads, starter):
    threads.send(b"keyed", sharding_key="k")
    assert len(threads.posts) == 1


async def test_S17_more_than_one_batch_holds_is_not_left(threads, starter):
    for _ in range(2):
        threads.send(bytes(LARGEST // 2))
    assert not threads.posts
    threads.send(bytes(LARGEST // 2))
    assert len(threads.posts) == 1
    threads.run()
    assert bodies(starter) == [1, 2]


async def test_S17_a_message_lingers_no_longer_when_the_answer_is_late(autojump_clock, threads, starter):
    await trio.sleep(LINGER * 3)
    threads.send(b"second")
    assert not threads.posts
    await trio.sleep(LINGER * 0.9)
    assert bodies(starter) == [1]
    await trio.sleep(LINGER * 1.2)  # the inbox is looked at once in this time, and the message lingers from its arrival
    assert bodies(starter) == [1, 1]


async def test_S17_batches_that_fail_at_once_do_not_call_each_other(threads, starter):
    """Each of so many calls within calls would end with a RecursionError."""
    starter.land()
    starter.error = OSError("of a hook")
    sinks = [threads.send(bytes(LARGEST)) for _ in range(2000)]
    calls, late = count(1), []

    def before():
        if next(calls) == len(sinks):
            late.append(threads.send(b"late"))  # another thread sends just now, and relies on the batch under way

    starter.before = before
    threads.run()
    threads.run()
    assert [len(sink.outcomes) for sink in (*sinks, *late)] == [1] * 2001
    assert starter.count == 0


def fail_first(starter, send):
    """Have the next batch fail at once, while another thread sends; those after it are sent."""
    sinks = []

    def before():
        starter.error = None if sinks else OSError("of a hook")
        if not sinks:
            sinks.append(send())

    starter.before = before
    return sinks


@pytest.mark.parametrize("how", ["linger", "hurry", "close"])
async def test_S17_a_batch_that_fails_at_once_does_not_have_the_next_one_sent_twice(
    autojump_clock, threads, starter, how
):
    starter.land()
    sinks = [threads.send(each.encode(), topic=each, waits=False) for each in ("First", "Second")]
    threads.run()
    late = fail_first(starter, lambda: threads.send(b"late", topic="Second"))
    if how == "linger":
        await trio.sleep(LINGER * 1.1)
    elif how == "hurry":
        threads.hurry()
    else:
        threads.close()
    threads.run()
    threads.run()
    while starter.under_way:
        starter.land()
    assert [len(sink.outcomes) for sink in (*sinks, *late)] == [1] * 3
    assert bodies(starter) == [1, 1, 1]
    assert starter.count == 0


async def test_S17_a_message_that_arrives_while_those_without_a_route_are_sent_is_not_lost(threads, starter):
    starter.land()
    sinks = [threads.send(bytes(LARGEST * 2 // 3), sharding_key="k", waits=False) for _ in range(2)]
    threads.run()
    late = fail_first(starter, lambda: threads.send(b"late", sharding_key="k", waits=False))
    starter.has_route.set()
    await trio.testing.wait_all_tasks_blocked()
    threads.run()
    threads.close()
    while starter.under_way:
        starter.land()
    assert [len(sink.outcomes) for sink in (*sinks, *late)] == [1] * 3
    assert starter.count == 0


HEADS = [Head(b"", None, "true", None), Head(b"", None, "true", None), Head(b"TAGS\x01a\x02", None, "false", None)]
ALONE = SimpleNamespace(message_id="ID", is_batch=False)


def formed(messages):
    """The bodies of each batch, of messages that are all there when they are looked at."""
    made, posts = [], []
    starter = SimpleNamespace(note_begun=lambda: None, note_ended=lambda: None)
    config = ProducerConfig(group="pg", linger=LINGER, batch_max_bytes=LARGEST, max_message_size=MOST_IN_FRAME)
    core = SimpleNamespace(config=config, clock=lambda: 0.0)
    accumulator = Accumulator(core, starter, lambda count: ["ID"] * count)
    starter.start_batch = lambda outgoing, queue, tries, timeout, done: None
    accumulator.attach(posts.append)
    launch = accumulator._launch

    def launched(batch):
        made.append((batch.key, [each.body for each in batch.entries], batch.size, batch.frame_size, batch.is_awaited))
        launch(batch)

    accumulator._launch = launched
    for number, (size, different) in enumerate(messages):
        fields = LIKE | different
        body = bytes([number]) * size
        accumulator.drop_in(LingeringMessage(body=body, flag=0, sink=Sink(), deadline=fields["timeout"], **fields))
    for call in posts:
        call()
    accumulator.close()
    return made


LIKE = {"topic": "Orders", "head": HEADS[0], "outgoing": None, "queue": None, "timeout": 3.0, "tries": 1, "waits": True}
DIFFERENT = [
    {"topic": "Others"},
    {"head": HEADS[1]},
    {"head": HEADS[2]},
    {"outgoing": ALONE},
    {"queue": QUEUE},
    {"timeout": 4.0},
    {"tries": 2},
    {"waits": False},
]
MESSAGES = st.tuples(
    st.sampled_from([1, 1, 10, LARGEST // 3, LARGEST // 2, LARGEST - 1, LARGEST, LARGEST + 1]),
    st.sampled_from([{}] * len(DIFFERENT) + DIFFERENT),
)


@given(st.lists(MESSAGES, max_size=30))
@example([(1, {"waits": False}), (1, {})])
def test_S17_batches_are_those_of_messages_that_are_looked_at_one_by_one(messages):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Batch, "take_alike", lambda *_: 0)
        one_by_one = formed(messages)
    assert formed(messages) == one_by_one
