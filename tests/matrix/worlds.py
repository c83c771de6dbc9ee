"""What a cell has at hand: a client with a hook, a producer and a consumer of it, on one of the three surfaces."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from contextlib import AsyncExitStack, ExitStack

import trio

import rocketpy
import rocketpy.aio
import rocketpy.sync
from rocketpy.message import MessageQueue
from rocketpy.results import LocalTransactionState

__all__ = ["AsyncWorld", "BlockingWorld", "Hook"]

_numbers = itertools.count()
MODULES = {"trio": rocketpy, "asyncio": rocketpy.aio, "blocking": rocketpy.sync}


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
    """What the worlds of all surfaces have."""

    def __init__(self, name, cluster, *, consumer=False, pullers=False, transactions=False, **settings):
        self.name = name
        self.cluster = cluster
        self.namesrv = cluster.name_server_addresses
        self.module = MODULES[name]
        self.hook = Hook()
        self.queue = MessageQueue("Orders", "broker-a", 0)
        self.kept = []
        self.heard = self.awaited = self.before = self.revoked = None
        self.client = self.module.MQClientInstance(namesrv=self.namesrv, hooks=[self.hook])
        self.producer = self.module.Producer(unique("pg"), client=self.client, **settings)
        self.closed_producer = self.new("Producer")
        self.transactions = self.new("TransactionProducer", executor=self._execute)
        self.closed_consumer = self.new("PushConsumer")
        self.consumer = self.new("PushConsumer", before_consume=self._before, on_revoked=self._revoked)
        self.consumer.subscribe("Spare", lambda message: None)
        self.consumer.subscribe("Heard", self._hear)
        self.consumer.subscribe("Awaited", self._hear_async)
        self._wants_consumer = consumer
        self._wants_transactions = transactions
        self.lite = self.new("LitePullConsumer")
        self.lite.assign([self.queue])
        self.puller = self.new("PullConsumer")
        self._wants_pullers = pullers

    def new(self, kind, **more):
        """One that is not started."""
        if kind == "MQClientInstance":
            return self.module.MQClientInstance(namesrv=self.namesrv)
        if kind == "TransactionProducer":
            more |= {"checker": self._check}
        # A finaliser that closes a consumer may strike where its closing waits for: that takes so long, and no longer.
        if kind == "PushConsumer":
            more |= {"await_termination": 2.0}
        elif kind == "PullConsumer":
            more |= {"broker_suspend_max_time": 0.5, "consumer_timeout_when_suspend": 7.0}
        return getattr(self.module, kind)(unique(kind), client=self.client, **more)

    def keep(self, future):
        """Remember a future; the cell waits for it at its end."""
        self.kept.append(future)

    def _execute(self, message, arg):
        return LocalTransactionState.COMMIT

    def _check(self, message):
        return LocalTransactionState.COMMIT

    def _before(self, message):
        if self.before is not None and message.topic == "Heard":
            self.before()

    def _revoked(self, queues):
        revoked, self.revoked = self.revoked, None  # others go at the end
        if revoked is not None:
            revoked()

    def _hear(self, message):
        if self.heard is not None:
            self.heard()

    async def _hear_async(self, message):
        if self.awaited is not None:
            await self.awaited()


class BlockingWorld(World):
    """For blocking code."""

    def __enter__(self):
        with ExitStack() as stack:
            stack.enter_context(self.client)
            stack.enter_context(self.producer)
            if self._wants_transactions:
                stack.enter_context(self.transactions)
            if self._wants_consumer:
                stack.enter_context(self.consumer)
                self.consumer.wait_assigned(10)
            if self._wants_pullers:
                stack.enter_context(self.lite)
                stack.enter_context(self.puller)
                self.lite.wait_assigned(10)
            with self.closed_producer, self.closed_consumer:
                pass
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
            await stack.enter_async_context(self.client)
            await stack.enter_async_context(self.producer)
            if self._wants_transactions:
                await stack.enter_async_context(self.transactions)
            if self._wants_consumer:
                await stack.enter_async_context(self.consumer)
                await self.consumer.wait_assigned(10)
            if self._wants_pullers:
                await stack.enter_async_context(self.lite)
                await stack.enter_async_context(self.puller)
                await self.lite.wait_assigned(10)
            async with self.closed_producer, self.closed_consumer:
                pass
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
