"""Functions of users that are no listeners, on every surface: plain ones in threads, async ones in the user's loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from functools import partial

import pytest
import sniffio
import trio

from rocketpy import ConfigError, ConsumeFromWhere, Message, MessageModel
from tests.surfaces.surface import call, entered

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def taken(surface, got):
    """The next message, without holding up the loop."""
    take = partial(got.get, timeout=10)
    if surface.name == "trio":
        return await trio.to_thread.run_sync(take)
    return await asyncio.to_thread(take) if surface.name == "asyncio" else take()


class Shelf:
    """A store that notes where it is called."""

    def __init__(self):
        self.offsets = {}
        self.places = set()

    def note(self):
        try:
            loop = sniffio.current_async_library()
        except sniffio.AsyncLibraryNotFoundError:
            loop = None
        self.places.add((threading.current_thread(), loop))


class Plain(Shelf):
    def read(self, queue):
        self.note()
        return self.offsets.get(queue)

    def write(self, offsets):
        self.note()
        self.offsets.update(offsets)


class Async(Shelf):
    async def read(self, queue):
        self.note()
        return self.offsets.get(queue)

    async def write(self, offsets):
        self.note()
        self.offsets.update(offsets)


@pytest.mark.parametrize("kind", [Plain, Async])
def test_an_offset_store_of_ones_own(surface, cluster, namesrv, topic, kind):
    shelf = kind()
    group = f"shelf-{kind.__name__}-{surface.name}"
    cluster.create_topic(topic, queues=2)
    here = threading.current_thread()

    async def main():
        for round_ in range(2):
            got = queue.Queue()
            consumer = surface.module.PushConsumer(group, namesrv=namesrv, offset_store=shelf, consume_from_where=FIRST)
            consumer.subscribe(topic, got.put)
            sent = [b"%d" % (10 * round_ + number) for number in range(10)]
            for body in sent:
                cluster.send(Message(topic, body))
            async with entered(consumer):
                await call(consumer.wait_assigned(5))
                bodies = sorted([(await taken(surface, got)).body for _ in sent])
            assert bodies == sorted(sent)

    surface.run(main)
    assert sum(at for queue, at in shelf.offsets.items() if queue.topic == topic) == 20
    if kind is Plain:
        assert all(loop is None and thread is not here for thread, loop in shelf.places)
    elif surface.name == "blocking":
        assert all(loop == "trio" and thread is not here for thread, loop in shelf.places)
    else:
        assert shelf.places == {(here, surface.name)}


def test_a_consumer_that_broadcasts(surface, cluster, namesrv, topic, tmp_path):
    cluster.create_topic(topic, queues=2)
    settings = {
        "namesrv": namesrv,
        "message_model": MessageModel.BROADCASTING,
        "local_offset_store_dir": tmp_path,
        "consume_from_where": FIRST,
    }

    async def main():
        got = queue.Queue()
        for name in ("one", "two"):
            consumer = surface.module.PushConsumer(f"all-{surface.name}", instance_name=name, **settings)
            consumer.subscribe(topic, got.put)
            async with entered(consumer):
                assert len(await call(consumer.wait_assigned(5))) == 2
                cluster.send(Message(topic, name.encode()))
                bodies = {(await taken(surface, got)).body for _ in range(1 if name == "one" else 2)}
            assert name.encode() in bodies

    surface.run(main)
    assert len(list(tmp_path.rglob("offsets.json"))) == 2


class Hooks(Shelf):
    """Hooks that note where they are called and of how many queues."""

    def __init__(self):
        super().__init__()
        self.told = []

    def plain(self, queues):
        self.note()
        self.told.append(len(queues))

    async def awaited(self, queues):
        self.plain(queues)


@pytest.mark.parametrize("kind", ["plain", "awaited"])
def test_queues_that_come_and_go_are_told(surface, cluster, namesrv, topic, kind):
    hooks = Hooks()
    hook = getattr(hooks, kind)
    cluster.create_topic(topic, queues=2)
    here = threading.current_thread()

    async def main():
        consumer = surface.module.PushConsumer(
            f"hooks-{kind}-{surface.name}", namesrv=namesrv, on_assigned=hook, on_revoked=hook
        )
        consumer.subscribe(topic, lambda message: None)
        async with entered(consumer):
            await call(consumer.wait_assigned(5))
            await call(consumer.commit())
            consumer.pause(topic)
            consumer.resume()
            consumer.set_consume_thread_max(3)

    surface.run(main)
    assert hooks.told == [2, 2]
    if kind == "plain":
        assert all(loop is None and thread is not here for thread, loop in hooks.places)
    elif surface.name == "blocking":
        assert all(loop == "trio" and thread is not here for thread, loop in hooks.places)
    else:
        assert hooks.places == {(here, surface.name)}


def test_a_hook_may_commit_and_close(surface, cluster, namesrv, topic):
    """It does not wait for the very end that waits for it."""
    cluster.create_topic(topic, queues=2)
    committed = []

    async def main():
        def plain(queues):
            consumer.commit(5)
            committed.append(len(queues))
            consumer.close()

        async def awaited(queues):
            await consumer.commit(5)
            committed.append(len(queues))
            if surface.name == "asyncio":
                await consumer.aclose()

        consumer = surface.module.PushConsumer(
            f"closing-{surface.name}",
            namesrv=namesrv,
            on_revoked=plain if surface.name == "blocking" else awaited,
        )
        consumer.subscribe(topic, lambda message: None)
        async with entered(consumer):
            await call(consumer.wait_assigned(5))

    surface.run(main)
    assert committed == [2]


@pytest.mark.parametrize("kind", ["PushConsumer", "LitePullConsumer"])
def test_a_commit_in_write_is_refused_at_once(surface, cluster, namesrv, topic, kind):
    """Commits wait for `write`, so it would wait for itself until it timed out, and nothing would be written."""
    cluster.create_topic(topic, queues=1)
    refused = []

    class Committing(Shelf):
        def read(self, queue):
            return self.offsets.get(queue)

        def write(self, offsets):
            try:
                consumer.commit(timeout=5)
            except ConfigError as error:
                refused.append(str(error))
            self.offsets.update(offsets)

    class AsyncCommitting(Committing):
        async def write(self, offsets):
            try:
                await consumer.commit(timeout=5)
            except ConfigError as error:
                refused.append(str(error))
            self.offsets.update(offsets)

    shelf = (Committing if surface.name == "blocking" else AsyncCommitting)()
    consumer = getattr(surface.module, kind)(f"in-write-{kind}-{surface.name}", namesrv=namesrv, offset_store=shelf)
    consumer.subscribe(*([topic, lambda message: None] if kind == "PushConsumer" else [topic]))

    async def main():
        async with entered(consumer):
            (queue,) = await call(consumer.wait_assigned(5))
            if kind == "PushConsumer":
                await call(consumer.commit(5))
            else:
                await call(consumer.commit({queue: 0}, timeout=5))
            assert shelf.offsets[queue] == 0

    surface.run(main)
    assert refused
    assert all("that same write" in text for text in refused)


def test_queues_are_taken_where_the_call_is_made(surface, cluster, namesrv, topic):
    """An iterable of queues may run code of the user's."""
    cluster.create_topic(topic, queues=1)
    here, places = threading.current_thread(), []

    def given(queues):
        places.append(threading.current_thread())
        yield from queues

    async def main():
        consumer = surface.module.LitePullConsumer(f"taken-{surface.name}", namesrv=namesrv)
        consumer.subscribe(topic)
        async with entered(consumer):
            queues = await call(consumer.wait_assigned(5))
            await call(consumer.pause(given(queues)))
            await call(consumer.resume(given(queues)))

    surface.run(main)
    assert places == [here, here]
