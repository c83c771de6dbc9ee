"""Expressions, hooks, memories of copies and strategies of consumers, on every surface with its threads and loops."""

from __future__ import annotations

import queue
import threading

import pytest

from rocketpy import ConsumeFromWhere, ConsumeResult, Message
from tests.surfaces.surface import call, entered
from tests.surfaces.test_functions_of_users import Shelf, taken

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
EXPRESSION = "(TAGS IS NOT NULL AND TAGS IN ('TagA', 'TagB')) OR (test IS NOT NULL AND test BETWEEN 7 AND 9)"


def fill(cluster, topic):
    """Four messages, of which the expression wants the first three."""
    cluster.create_topic(topic, queues=2)
    for body, tags, test in ((b"0", "TagA", "1"), (b"1", "TagC", "7"), (b"2", "TagB", "8"), (b"3", "TagC", "10")):
        cluster.send(Message(topic, body, tags=tags, properties={"test": test}))


async def bodies_of(surface, got, count):
    """So many messages, and no other."""
    found = sorted([(await taken(surface, got)).body for _ in range(count)])
    assert got.empty()
    return found


# --- expressions ------------------------------------------------------------------------------------------------


def test_a_push_consumer_that_subscribes_by_sql(surface, cluster, namesrv, topic):
    fill(cluster, topic)

    async def main():
        got = queue.Queue()
        group = f"sql-{surface.name}"
        consumer = surface.module.PushConsumer(group, namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic, got.put, sql=EXPRESSION)
        async with entered(consumer):
            assert await bodies_of(surface, got, 3) == [b"0", b"1", b"2"]
            assert set(consumer.assignment) <= (await call(consumer.lag())).keys()
            while any((await call(consumer.lag(timeout=5))).values()):
                pass  # what the expression excludes is done too, once it was pulled

    surface.run(main)


def test_a_lite_pull_consumer_that_subscribes_by_sql(surface, cluster, namesrv, topic):
    fill(cluster, topic)

    async def main():
        found = []
        consumer = surface.module.LitePullConsumer(f"sql-{surface.name}", namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic, sql=EXPRESSION)
        async with entered(consumer):
            while len(found) < 3:
                found += [message.body for message in await call(consumer.poll(timeout=10))]
        assert sorted(found) == [b"0", b"1", b"2"]

    surface.run(main)


def test_a_pull_by_sql(surface, cluster, namesrv, topic):
    fill(cluster, topic)

    async def main():
        found = []
        async with entered(surface.module.PullConsumer(f"sql-{surface.name}", namesrv=namesrv)) as consumer:
            for each in await call(consumer.fetch_message_queues(topic)):
                found += (await call(consumer.pull(each, 0, sql=EXPRESSION))).messages
        assert sorted(message.body for message in found) == [b"0", b"1", b"2"]

    surface.run(main)


# --- around the listener ----------------------------------------------------------------------------------------


class Around(Shelf):
    """A listener with its hooks, of either kind, that note what they get and where they run."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.done = queue.Queue()

    def before(self, message):
        self.note()
        self.seen.append(("before", message.body))

    def listener(self, message):
        self.note()
        self.seen.append(("listener", message.body))
        return ConsumeResult.SUCCESS

    def after(self, message, outcome):
        self.note()
        self.seen.append(("after", message.body, outcome))
        self.done.put(message)

    async def before_async(self, message):
        self.before(message)

    async def listener_async(self, message):
        return self.listener(message)

    async def after_async(self, message, outcome):
        self.after(message, outcome)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_hooks_run_where_the_listener_does(surface, cluster, namesrv, topic, kind, orderly):
    around, here = Around(), threading.current_thread()
    before, listener, after = (
        getattr(around, name if kind == "plain" else f"{name}_async") for name in ("before", "listener", "after")
    )
    cluster.create_topic(topic, queues=1)
    cluster.send(Message(topic, b"x"))

    async def main():
        group = f"around-{surface.name}-{kind}-{orderly}"
        settings = {"before_consume": before, "after_consume": after, "orderly": orderly}
        consumer = surface.module.PushConsumer(group, namesrv=namesrv, consume_from_where=FIRST, **settings)
        consumer.subscribe(topic, listener)
        async with entered(consumer):
            await taken(surface, around.done)

    surface.run(main)
    assert around.seen == [("before", b"x"), ("listener", b"x"), ("after", b"x", ConsumeResult.SUCCESS)]
    ((thread, loop),) = around.places
    if kind == "plain":
        assert (loop, thread is here) == (None, False)
    elif surface.name == "blocking":
        assert (loop, thread is here) == ("trio", False)
    else:
        assert (loop, thread is here) == (surface.name, True)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_what_comes_twice_is_consumed_once(surface, cluster, namesrv, topic, kind):
    cluster.create_topic(topic, queues=1)
    got = queue.Queue()

    async def listener(message):
        got.put(message)

    async def main():
        settings = {"dedupe": "key", "consume_thread_max": 1, "consume_from_where": FIRST}
        consumer = surface.module.PushConsumer(f"once-{surface.name}-{kind}", namesrv=namesrv, **settings)
        consumer.subscribe(topic, got.put if kind == "plain" else listener)
        async with entered(consumer):
            for number, key in enumerate("abaab"):
                cluster.send(Message(topic, b"%d" % number, keys=[key]))
            cluster.send(Message(topic, b"end", keys=["end"]))
            assert [(await taken(surface, got)).body for _ in range(3)] == [b"0", b"1", b"end"]
            assert consumer.statistics().duplicates == 3

    surface.run(main)


# --- who gets which queue ---------------------------------------------------------------------------------------


@pytest.mark.waits("another topic may be due at the same moment")
@pytest.mark.parametrize("kind", ["PushConsumer", "LitePullConsumer"])
def test_a_function_of_ones_own_shares_out_the_queues(surface, cluster, namesrv, topic, kind):
    cluster.create_topic(topic, queues=4)
    asked = []
    shelf = Shelf()
    here = threading.current_thread()
    under_way, overlapping = [], threading.Event()

    def first_takes_all_but_one(request):
        shelf.note()
        under_way.append(request.client_id)
        if under_way.count(request.client_id) > 1:
            overlapping.set()
        elif not asked:
            overlapping.wait(0.03)  # another topic, a push consumer's retry topic, would be called now
        asked.append((request.group, request.topic))
        under_way.remove(request.client_id)
        first = request.client_id == min(request.client_ids)
        return request.queues[:-1] if first else request.queues[-1:]

    async def main():
        group = f"own-{surface.name}-{kind}"

        def member(name):
            made = getattr(surface.module, kind)(
                group, namesrv=namesrv, instance_name=name, allocate_strategy=first_takes_all_but_one
            )
            made.subscribe(*([topic, lambda message: None] if kind == "PushConsumer" else [topic]))
            return made

        async with entered(member("one")) as one:
            assert len(await call(one.wait_assigned(10))) == 3  # alone it leaves one queue to nobody
            async with entered(member("two")) as two:
                mine = await call(two.wait_assigned(10))
                assert len(mine) == 1
                assert not set(mine) & set(one.assignment)
        assert (group, topic) in asked
        assert {each for each, _ in asked} == {group}

    surface.run(main)
    assert all(loop is None and thread is not here for thread, loop in shelf.places)
    assert not overlapping.is_set()
