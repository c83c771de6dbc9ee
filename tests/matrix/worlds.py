"""What a cell has at hand: a client, a producer, and the consumers that it needs, on one of the three surfaces."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from contextlib import AsyncExitStack, ExitStack, suppress
from types import MappingProxyType

import trio

import rocketpy
import rocketpy.aio
import rocketpy.sync
from rocketpy import ConsumeFromWhere, UnknownContentTypeError
from rocketpy.message import Message, MessageQueue
from tests.matrix.casts import OF_PULL, OWN_TYPE, PRODUCERS, PULL, PULLER, PUSH, TRANSACTIONS, Users, committed, hooks

__all__ = ["WAYS", "AsyncWorld", "BlockingWorld", "Hook", "in_thread", "unique"]

_numbers = itertools.count()
MODULES = {"trio": rocketpy, "asyncio": rocketpy.aio, "blocking": rocketpy.sync}
WAYS = ("hooked", "cold", "warm")
WARMING = 3
"""Sends after which the way past the background is open."""
FRESH = 50
"""So many worlds share topics that are listened to: a group that is new gets everything that a topic holds."""


def unique(what):
    return f"{what}-{os.getpid()}-{next(_numbers)}"


class Hook:
    """A request hook that calls a function once, before the next request or after the next answer."""

    def __init__(self):
        self.before = self.after = None

    def before_request(self, address, command):
        function, self.before = self.before, None
        if function is not None:
            function()

    def after_answer(self, address, command, answer):
        function, self.after = self.after, None
        if function is not None:
            function()


class World:
    """What the worlds of all surfaces have.

    Args:
        name: of the surface.
        cluster: has the topics that `running_worker` creates.
        way: how sends go: "hooked", through a background thread that this client has to itself, as it has a hook of
            the user's; "cold", the first one through the background thread of all clients; "warm", past that, as some
            have been sent before.
        needs: the parts that run in it beside the client and the producer, each with its cast (see `casts`), "" for the
            usual one: "consumer", a push consumer of three topics; "ordered" and "broadcast", others of one topic;
            "lite", a lite pull consumer that has `pulled` assigned; "handed out", a message of its; "sharing", another
            one that subscribes a topic; "puller"; "admin"; "transactions", a producer of them; "closed producer" and
            "closed consumer", which are closed. "producer" is always there, and only has a cast.
        settings: of the producer.
    """

    def __init__(self, name, cluster, *, way="cold", needs=MappingProxyType({}), **settings):
        self.name = name
        self.way = way
        self.cluster = cluster
        self.namesrv = cluster.name_server_addresses
        self.module = MODULES[name]
        self.hook = Hook()
        self.users = Users()
        self.kept = []
        self.queue = MessageQueue("Orders", "broker-a", 0)
        self.pulled, self.elsewhere = (MessageQueue("Pulled", "broker-a", number) for number in range(2))
        self.heard, self.awaited = (topic_of_now(cluster, kind) for kind in ("Heard", "Awaited"))
        self.client = self.module.MQClientInstance(namesrv=self.namesrv, hooks=[self.hook] if way == "hooked" else [])
        settings = PRODUCERS[needs.get("producer", "")](self.users) | settings
        self.producer = self.module.Producer(unique("pg"), client=self.client, **settings)
        self.consumer = self.lite = None
        self._parts = [self.client, self.producer]
        self._closed = []
        self.started = {}
        self._hands_out = "handed out" in needs
        for need, cast in needs.items():
            if need not in ("handed out", "producer"):
                part = self.part(need, cast)
                setattr(self, need.replace(" ", "_"), part)
                self.started[need] = part
                (self._closed if need.startswith("closed") else self._parts).append(part)

    # --- parts --------------------------------------------------------------------------------------------

    def part(self, need, cast=""):
        """Make a part; it is not started."""
        return getattr(self, f"_make_{need.replace(' ', '_')}")(cast)

    def new(self, kind, **more):
        """One that is not started."""
        if kind == "MQClientInstance":
            return self.module.MQClientInstance(namesrv=self.namesrv)
        if kind == "Admin":
            return self.module.Admin(client=self.client)
        if kind == "TransactionProducer":
            more = {"checker": committed} | more
        # A finaliser that closes a consumer may strike where its closing waits for: that takes so long, and no longer.
        if kind == "PushConsumer":
            more = {"await_termination": 2.0} | more
        elif kind == "PullConsumer":
            more |= {"broker_suspend_max_time": 0.5, "consumer_timeout_when_suspend": 7.0}
        return getattr(self.module, kind)(unique(kind), client=self.client, **more)

    def _make_consumer(self, cast):
        around = {f"{when}_consume": self.users.plain(f"{when}_consume") for when in ("before", "after")}
        made = self.new("PushConsumer", **{**hooks(self.users), **around, **PUSH[cast](self.users)})
        made.subscribe("Spare", nothing)
        made.subscribe(self.heard, self._hear)
        made.subscribe(self.awaited, self._hear_async)
        return made

    def _make_ordered(self, cast):
        return self._listening_to_spare("in order")

    def _make_broadcast(self, cast):
        return self._listening_to_spare("a broadcast")

    def _listening_to_spare(self, cast):
        made = self.new("PushConsumer", **PUSH[cast](self.users))
        made.subscribe("Spare", nothing)
        return made

    def _make_lite(self, cast):
        settings = {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **hooks(self.users, OF_PULL)}
        made = self.new("LitePullConsumer", **{**settings, **PULL[cast](self.users)})
        made.assign([self.elsewhere if cast == "elsewhere" else self.pulled])
        return made

    def _make_sharing(self, cast):
        made = self.new("LitePullConsumer")
        made.subscribe("Pulled")
        return made

    def _make_puller(self, cast):
        return self.new("PullConsumer", **PULLER[cast](self.users))

    def _make_admin(self, cast):
        return self.new("Admin")

    def _make_transactions(self, cast):
        return self.new("TransactionProducer", topics=["Orders"], **TRANSACTIONS[cast](self.users))

    def _make_closed_producer(self, cast):
        return self.new("Producer")

    def _make_closed_consumer(self, cast):
        return self.new("PushConsumer")

    def keep(self, future):
        """Remember a future; the cell waits for it at its end."""
        self.kept.append(future)

    @property
    def _warming(self):
        return WARMING if self.way == "warm" else 0

    def to_hear(self):
        """A message for the plain listener."""
        return Message(self.heard, b"x")

    def to_decode(self):
        """Another one, which its listener has the user's serializer read."""
        return Message(self.heard, b"x", properties={"contentType": OWN_TYPE})

    def to_await(self):
        """A message for the async one."""
        return Message(self.awaited, b"x")

    def _hear(self, message):
        self.users.do("listener")
        with suppress(UnknownContentTypeError):  # sent by a world before, whose consumer had the serializer
            _ = message.value
        self.users.note_finished(message)

    async def _hear_async(self, message):
        await self.users.do_async("async listener")
        self.users.note_finished(message)


def nothing(*_):
    pass


_used = {}


def topic_of_now(cluster, kind):
    """A topic of one queue, of which there is not much yet."""
    uses = _used[kind] = _used.get(kind, -1) + 1
    name = f"{kind}-{os.getpid()}-{uses // FRESH}"
    if uses % FRESH == 0:
        cluster.create_topic(name, queues=1)
    return name


class BlockingWorld(World):
    """For blocking code."""

    def __enter__(self):
        with ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(part)
                if hasattr(part, "wait_assigned"):
                    part.wait_assigned(10)
            for part in self._closed:
                with part:
                    pass
            if self._hands_out:
                (self.handed_out,) = self.lite.poll(1, timeout=5)
            for _ in range(self._warming):
                self.producer.send(Message("Orders", b"warm"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.close()
        for future in self.kept:
            future.result(5)

    def is_here(self):
        return False

    def start(self, thing):
        thing.start()

    def close(self, thing):
        thing.close()

    def open_and_close(self, thing):
        with thing:
            pass


class AsyncWorld(World):
    """For a loop of trio or asyncio."""

    async def __aenter__(self):
        if self.name == "asyncio":
            self.loop = asyncio.get_running_loop()
            self.sleep = asyncio.sleep
        else:
            self.token = trio.lowlevel.current_trio_token()
            self.sleep = trio.sleep
        async with AsyncExitStack() as stack:
            if self.name == "trio":
                self.nursery = await stack.enter_async_context(trio.open_nursery())
            for part in self._parts:
                await stack.enter_async_context(part)
                if hasattr(part, "wait_assigned"):
                    await part.wait_assigned(10)
            for part in self._closed:
                async with part:
                    pass
            if self._hands_out:
                (self.handed_out,) = await self.lite.poll(1, timeout=5)
            for _ in range(self._warming):
                await self.producer.send(Message("Orders", b"warm"))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()

    def is_here(self):
        """Whether this is the thread in which the loop of this world runs."""
        try:
            if self.name == "asyncio":
                return asyncio.get_running_loop() is self.loop
            return trio.lowlevel.current_trio_token() is self.token
        except RuntimeError:
            return False

    def spawn(self, coroutine):
        """Run a coroutine in a task of the loop, from wherever."""
        if self.name == "asyncio":
            self.loop.call_soon_threadsafe(lambda: self.kept.append(self.loop.create_task(coroutine)))
        else:
            self.token.run_sync_soon(self.nursery.start_soon, lambda: coroutine)

    async def start(self, thing):
        await thing.__aenter__()

    async def close(self, thing):
        await thing.__aexit__(None, None, None)

    async def open_and_close(self, thing):
        async with thing:
            pass

    async def to_thread(self, function):
        """Run a plain function in a thread."""
        if self.name == "asyncio":
            return await asyncio.to_thread(function)
        return await trio.to_thread.run_sync(function)

    def in_loop(self, function):
        """From a thread that the loop knows: run an async function in the loop."""
        if self.name == "asyncio":
            return asyncio.run_coroutine_threadsafe(function(), self.loop).result(10)
        return trio.from_thread.run(function, trio_token=self.token)


def in_thread(function):
    """Run a plain function in a thread of its own, to its end."""
    thread = threading.Thread(target=function, name="of the user")
    thread.start()
    thread.join(10)
