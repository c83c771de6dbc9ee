"""The public calls of the seven classes on the three surfaces, as functions of a world. Every name is in a table."""

from __future__ import annotations

from contextlib import suppress

import attrs

from rocketpy import ClientClosedError, ReplyTimeoutError, RequestTimeoutError
from rocketpy.message import Message
from rocketpy.results import LocalTransactionState
from rocketpy.seams import wall_ms
from rocketpy.wire.recall_handle import RecallHandle

__all__ = ["CALLS", "CLASSES", "FUNCTIONS", "NOT_CALLS", "SURFACES", "Call", "calls_of", "public"]

SURFACES = ("trio", "asyncio", "blocking")
NO_BLOCK = ("asyncio", "blocking")
"""The surfaces on which an object can also be closed without the end of its block."""
CLASSES = (
    "Producer",
    "TransactionProducer",
    "PushConsumer",
    "LitePullConsumer",
    "PullConsumer",
    "Admin",
    "MQClientInstance",
)
FUNCTIONS = ("replay_dead_letters",)


@attrs.frozen
class Call:
    """One way to call something.

    Attributes:
        make: given a world, makes it; the answer may have to be awaited.
        surfaces: where there is such a call.
        needs: the parts that the world needs for it; see `worlds.World`.
        closes: whether the object of the place is closed by it.
        allowed: errors that are an answer to it.
        waits: whether it waits for another send; not to be done on the thread that would complete that one.
        refused: whether it is refused everywhere.
        linger: of the producer.
        hungry: whether it waits for a message without a limit.
    """

    make: object
    surfaces: tuple[str, ...] = SURFACES
    needs: tuple[str, ...] = ()
    closes: bool = False
    allowed: tuple[type, ...] = ()
    waits: bool = False
    refused: bool = False
    linger: float | None = None
    hungry: bool = False


_PUSH, _LITE, _PULL = ("consumer",), ("lite",), ("puller",)
_ORDERED, _BROADCAST = ("ordered",), ("broadcast",)
_TRANSACTIONS = ("transactions",)
_ADMIN = ("admin",)


def one():
    return Message("Orders", b"from a cell")


def _handle():
    """Of a message that is due tomorrow."""
    return RecallHandle("Orders", "broker-a", str(wall_ms() + 86_400_000), "AC11000100002A9F" * 2).encode()


def _nothing(*_):
    pass


async def _nothing_async(*_):
    pass


def _committed(message, arg):
    return LocalTransactionState.COMMIT


async def _committed_async(message, arg):
    return LocalTransactionState.COMMIT


def _subscribed_and_not(world):
    consumer = world.new("LitePullConsumer")
    consumer.subscribe("Orders", tags="a")
    consumer.unsubscribe("Orders")


def _subscribed_by_sql(world):
    consumer = world.new("LitePullConsumer")
    consumer.subscribe("Orders", sql="a BETWEEN 1 AND 3")
    consumer.subscribe("Orders", sql="a IS NULL")


def _started(kind, **settings):
    """Start one of this kind and close it again; on the other surfaces, enter and leave it."""

    def make(world):
        return world.open_and_close(world.new(kind, **settings))

    return make


class _Opened(Exception):
    """Ends what a nursery has started, as soon as it is open."""

    def started(self, thing):
        assert " open" in repr(thing)
        raise self


def _run(kind, **settings):
    """Run one of this kind as a nursery does, until it is open, and have it end by an exception."""

    async def make(world):
        with suppress(_Opened):
            await world.new(kind, **settings).run(task_status=_Opened())

    return make


def _started_with_topic(need):
    """The same with a push consumer that has a topic."""

    def make(world):
        return world.open_and_close(world.part(need))

    return make


def _steered_in_order(world):
    consumer = world.ordered
    consumer.pause("Spare")
    consumer.resume()
    consumer.set_consume_thread_max(10)
    consumer.subscribe("Spare", _nothing_async)
    consumer.unsubscribe("Spare")


def _subscribed_anew(world):
    world.sharing.unsubscribe("Pulled")
    world.sharing.subscribe("Pulled", tags="a")


def _iterated(world):
    """One turn of `for message in consumer`, or of `async for`."""
    return world.lite.__next__() if world.name == "blocking" else world.lite.__anext__()


CALLS = {
    # Producer
    "Producer.send": Call(lambda w: w.producer.send(one())),
    "Producer.send, a key": Call(lambda w: w.producer.send(Message("Orders", b"x", sharding_key="k"))),
    "Producer.send, a queue": Call(lambda w: w.producer.send(one(), queue=w.queue)),
    "Producer.send, a selector": Call(lambda w: w.producer.send(one(), selector=lambda queues, m, a: queues[0])),
    "Producer.send_soon": Call(lambda w: w.keep(w.producer.send_soon(one())), ("blocking",)),
    "Producer.send_soon, its result": Call(lambda w: w.producer.send_soon(one()).result(4), ("blocking",), waits=True),
    "Producer.send, lingering": Call(lambda w: w.producer.send(one()), linger=0.005),
    "Producer.send_soon, lingering": Call(lambda w: w.keep(w.producer.send_soon(one())), ("blocking",), linger=0.005),
    "Producer.send_soon, lingering, its result": Call(
        lambda w: w.producer.send_soon(one()).result(4), ("blocking",), waits=True, linger=0.005
    ),
    "Producer.request": Call(
        lambda w: w.producer.request(one(), timeout=0.3), allowed=(ReplyTimeoutError,), waits=True
    ),
    "Producer.request_soon": Call(lambda w: w.producer.request_soon(one(), timeout=0.3).done(), ("blocking",)),
    "Producer.request_soon, its reply": Call(
        lambda w: w.producer.request_soon(one(), timeout=0.3).result(4),
        ("blocking",),
        allowed=(ReplyTimeoutError,),
        waits=True,
    ),
    "Producer.send_oneway": Call(lambda w: w.producer.send_oneway(one())),
    "Producer.send_batch": Call(lambda w: w.producer.send_batch([one(), one()])),
    "Producer.send_batch, a value": Call(lambda w: w.producer.send_batch([Message("Orders", value=[1])])),
    "Producer.batches": Call(lambda w: w.producer.batches([one(), one()])),
    "Producer.send_many": Call(lambda w: w.producer.send_many([one() for _ in range(30)], batch_size=4)),
    "Producer.recall": Call(lambda w: w.producer.recall("Orders", _handle())),
    "Producer.queues": Call(lambda w: w.producer.queues("Orders")),
    "Producer.create_topic": Call(lambda w: w.producer.create_topic("Orders", queues=4)),
    "Producer.admin": Call(lambda w: repr(w.producer.admin())),
    "Producer.is_open, config": Call(lambda w: (w.producer.is_open, w.producer.config, repr(w.producer))),
    "Producer.statistics": Call(lambda w: w.producer.statistics()),
    "Producer.start": Call(_started("Producer")),
    "Producer.run": Call(_run("Producer"), ("trio",)),
    "Producer.start, a second time": Call(lambda w: w.start(w.producer), refused=True),
    "Producer.reopen": Call(lambda w: w.producer.reopen(), refused=True),
    "Producer.close": Call(lambda w: w.close(w.producer), closes=True, surfaces=NO_BLOCK),
    "Producer.send, closed": Call(lambda w: w.closed_producer.send(one()), needs=("closed producer",), refused=True),
    # TransactionProducer
    "TransactionProducer.send_in_transaction": Call(
        lambda w: w.transactions.send_in_transaction(one()), needs=_TRANSACTIONS
    ),
    "TransactionProducer.send_in_transaction, executor": Call(
        lambda w: w.transactions.send_in_transaction(one(), _committed, "an argument"), needs=_TRANSACTIONS
    ),
    "TransactionProducer.send_in_transaction, async": Call(
        lambda w: w.transactions.send_in_transaction(one(), _committed_async), needs=_TRANSACTIONS
    ),
    "TransactionProducer.check_statistics, statistics, is_open": Call(
        lambda w: (
            w.transactions.check_statistics(),
            w.transactions.statistics(),
            w.transactions.is_open,
            repr(w.transactions),
        ),
        needs=_TRANSACTIONS,
    ),
    "TransactionProducer.start": Call(_started("TransactionProducer")),
    "TransactionProducer.run": Call(_run("TransactionProducer"), ("trio",)),
    "TransactionProducer.start, a second time": Call(
        lambda w: w.start(w.transactions), needs=_TRANSACTIONS, refused=True
    ),
    "TransactionProducer.reopen": Call(lambda w: w.transactions.reopen(), needs=_TRANSACTIONS, refused=True),
    "TransactionProducer.close": Call(
        lambda w: w.close(w.transactions), needs=_TRANSACTIONS, closes=True, surfaces=NO_BLOCK
    ),
    # PushConsumer
    "PushConsumer.subscribe, plain": Call(lambda w: w.consumer.subscribe("Pulled", _nothing), needs=_PUSH),
    "PushConsumer.subscribe, async": Call(lambda w: w.consumer.subscribe("Pulled", _nothing_async), needs=_PUSH),
    "PushConsumer.subscribe, sql": Call(
        lambda w: w.consumer.subscribe("Pulled", _nothing, sql="a IS NULL"), needs=_PUSH
    ),
    "PushConsumer.unsubscribe": Call(lambda w: w.consumer.unsubscribe("Spare"), needs=_PUSH),
    "PushConsumer.assignment": Call(lambda w: w.consumer.assignment, needs=_PUSH),
    "PushConsumer.wait_assigned": Call(
        lambda w: w.consumer.wait_assigned(0.5), needs=_PUSH, allowed=(RequestTimeoutError,)
    ),
    "PushConsumer.pause": Call(lambda w: w.consumer.pause("Spare"), needs=_PUSH),
    "PushConsumer.resume": Call(lambda w: w.consumer.resume(), needs=_PUSH),
    "PushConsumer.set_consume_thread_max": Call(lambda w: w.consumer.set_consume_thread_max(10), needs=_PUSH),
    "PushConsumer.commit": Call(lambda w: w.consumer.commit(2), needs=_PUSH, allowed=(RequestTimeoutError,)),
    "PushConsumer.lag": Call(lambda w: w.consumer.lag(), needs=_PUSH),
    "PushConsumer.status": Call(lambda w: w.consumer.status(), needs=_PUSH),
    "PushConsumer.admin": Call(lambda w: repr(w.consumer.admin()), needs=_PUSH),
    "PushConsumer.statistics, config": Call(lambda w: (w.consumer.statistics(), w.consumer.config), needs=_PUSH),
    "PushConsumer.run_forever": Call(
        lambda w: w.closed_consumer.run_forever(), needs=("closed consumer",), allowed=(ClientClosedError,)
    ),
    "PushConsumer.start": Call(_started("PushConsumer")),
    "PushConsumer.run": Call(_run("PushConsumer"), ("trio",)),
    "PushConsumer.start, a second time": Call(lambda w: w.start(w.consumer), needs=_PUSH, refused=True),
    "PushConsumer.reopen": Call(lambda w: w.consumer.reopen(), needs=_PUSH, refused=True),
    "PushConsumer.close": Call(lambda w: w.close(w.consumer), needs=_PUSH, closes=True, surfaces=NO_BLOCK),
    "PushConsumer.commit, in order": Call(
        lambda w: w.ordered.commit(2), needs=_ORDERED, allowed=(RequestTimeoutError,)
    ),
    "PushConsumer.commit, a broadcast": Call(lambda w: w.broadcast.commit(2), needs=_BROADCAST),
    "PushConsumer.pause, resume, set_consume_thread_max, subscribe, unsubscribe, in order": Call(
        _steered_in_order, needs=_ORDERED
    ),
    "PushConsumer.start, in order": Call(_started_with_topic("ordered")),
    "PushConsumer.start, a broadcast": Call(_started_with_topic("broadcast")),
    "PushConsumer.close, in order": Call(lambda w: w.close(w.ordered), needs=_ORDERED, closes=True, surfaces=NO_BLOCK),
    "PushConsumer.close, a broadcast": Call(
        lambda w: w.close(w.broadcast), needs=_BROADCAST, closes=True, surfaces=NO_BLOCK
    ),
    # LitePullConsumer
    "LitePullConsumer.subscribe, unsubscribe": Call(_subscribed_and_not),
    "LitePullConsumer.subscribe, sql": Call(_subscribed_by_sql),
    "LitePullConsumer.unsubscribe, subscribe, running": Call(_subscribed_anew, needs=("sharing",)),
    "LitePullConsumer.commit, sharing": Call(lambda w: w.sharing.commit(), needs=("sharing",)),
    "LitePullConsumer.assign": Call(lambda w: w.lite.assign([w.pulled]), needs=_LITE),
    "LitePullConsumer.on_queues_changed": Call(lambda w: w.lite.on_queues_changed("Orders", _nothing), needs=_LITE),
    "LitePullConsumer.fetch_message_queues": Call(lambda w: w.lite.fetch_message_queues("Pulled"), needs=_LITE),
    "LitePullConsumer.poll": Call(lambda w: w.lite.poll(5, timeout=0.1), needs=_LITE),
    "LitePullConsumer.__next__": Call(_iterated, needs=_LITE, allowed=(StopIteration, StopAsyncIteration), hungry=True),
    "LitePullConsumer.commit": Call(lambda w: w.lite.commit({w.pulled: 0}), needs=_LITE),
    "LitePullConsumer.commit_soon": Call(lambda w: w.lite.commit_soon(), needs=_LITE),
    "LitePullConsumer.ack": Call(lambda w: w.lite.ack(w.handed_out), needs=(*_LITE, "handed out")),
    "LitePullConsumer.position": Call(lambda w: w.lite.position(w.pulled), needs=_LITE),
    "LitePullConsumer.committed": Call(lambda w: w.lite.committed(w.pulled), needs=_LITE),
    "LitePullConsumer.beginning_offset": Call(lambda w: w.lite.beginning_offset(w.pulled), needs=_LITE),
    "LitePullConsumer.end_offset": Call(lambda w: w.lite.end_offset(w.pulled), needs=_LITE),
    "LitePullConsumer.offset_for_timestamp": Call(lambda w: w.lite.offset_for_timestamp(w.pulled, 0), needs=_LITE),
    "LitePullConsumer.lag": Call(lambda w: w.lite.lag(), needs=_LITE),
    "LitePullConsumer.seek": Call(lambda w: w.lite.seek(w.pulled, 0), needs=_LITE),
    "LitePullConsumer.seek_to_begin": Call(lambda w: w.lite.seek_to_begin(w.pulled), needs=_LITE),
    "LitePullConsumer.seek_to_end": Call(lambda w: w.lite.seek_to_end(w.pulled), needs=_LITE),
    "LitePullConsumer.seek_to_timestamp": Call(lambda w: w.lite.seek_to_timestamp(w.pulled, 0), needs=_LITE),
    "LitePullConsumer.pause": Call(lambda w: w.lite.pause([w.pulled]), needs=_LITE),
    "LitePullConsumer.resume": Call(lambda w: w.lite.resume([w.pulled]), needs=_LITE),
    "LitePullConsumer.admin": Call(lambda w: repr(w.lite.admin()), needs=_LITE),
    "LitePullConsumer.assignment, status, statistics, config": Call(
        lambda w: (w.lite.assignment, w.lite.status(), w.lite.statistics(), w.lite.config, repr(w.lite)), needs=_LITE
    ),
    "LitePullConsumer.wait_assigned": Call(lambda w: w.lite.wait_assigned(5), needs=_LITE),
    "LitePullConsumer.start": Call(_started("LitePullConsumer")),
    "LitePullConsumer.run": Call(_run("LitePullConsumer"), ("trio",)),
    "LitePullConsumer.start, a second time": Call(lambda w: w.start(w.lite), needs=_LITE, refused=True),
    "LitePullConsumer.reopen": Call(lambda w: w.lite.reopen(), needs=_LITE, refused=True),
    "LitePullConsumer.close": Call(lambda w: w.close(w.lite), needs=_LITE, closes=True, surfaces=NO_BLOCK),
    # PullConsumer
    "PullConsumer.pull": Call(lambda w: w.puller.pull(w.pulled, 0), needs=_PULL),
    "PullConsumer.pull_block_if_not_found": Call(lambda w: w.puller.pull_block_if_not_found(w.pulled, 0), needs=_PULL),
    "PullConsumer.update_consume_offset": Call(lambda w: w.puller.update_consume_offset(w.pulled, 0), needs=_PULL),
    "PullConsumer.fetch_consume_offset": Call(lambda w: w.puller.fetch_consume_offset(w.pulled), needs=_PULL),
    "PullConsumer.beginning_offset": Call(lambda w: w.puller.beginning_offset(w.pulled), needs=_PULL),
    "PullConsumer.end_offset": Call(lambda w: w.puller.end_offset(w.pulled), needs=_PULL),
    "PullConsumer.offset_for_timestamp": Call(lambda w: w.puller.offset_for_timestamp(w.pulled, 0), needs=_PULL),
    "PullConsumer.fetch_message_queues": Call(lambda w: w.puller.fetch_message_queues("Pulled"), needs=_PULL),
    "PullConsumer.admin": Call(lambda w: repr(w.puller.admin()), needs=_PULL),
    "PullConsumer.config, statistics": Call(
        lambda w: (w.puller.config, w.puller.statistics(), repr(w.puller)), needs=_PULL
    ),
    "PullConsumer.start": Call(_started("PullConsumer")),
    "PullConsumer.run": Call(_run("PullConsumer"), ("trio",)),
    "PullConsumer.start, a second time": Call(lambda w: w.start(w.puller), needs=_PULL, refused=True),
    "PullConsumer.reopen": Call(lambda w: w.puller.reopen(), needs=_PULL, refused=True),
    "PullConsumer.close": Call(lambda w: w.close(w.puller), needs=_PULL, closes=True, surfaces=NO_BLOCK),
    # Admin
    "Admin.topics": Call(lambda w: w.admin.topics.get("Orders"), needs=_ADMIN),
    "Admin.groups": Call(lambda w: w.admin.groups.list(), needs=_ADMIN),
    "Admin.offsets": Call(lambda w: w.admin.offsets.at(w.pulled, 0), needs=_ADMIN),
    "Admin.messages": Call(lambda w: w.admin.messages.read(w.pulled, max_messages=1), needs=_ADMIN),
    "Admin.consumers": Call(lambda w: w.admin.consumers.connections("TOOLS_CONSUMER"), needs=_ADMIN),
    "Admin.producers": Call(lambda w: w.admin.producers.list(), needs=_ADMIN),
    "Admin.brokers": Call(lambda w: w.admin.brokers.runtimes(), needs=_ADMIN),
    "Admin.name_servers": Call(lambda w: w.admin.name_servers.get("nobody", "nothing"), needs=_ADMIN),
    "Admin.config": Call(lambda w: (w.admin.config, repr(w.admin)), needs=_ADMIN),
    "Admin.start": Call(_started("Admin")),
    "Admin.run": Call(_run("Admin"), ("trio",)),
    "Admin.start, a second time": Call(lambda w: w.start(w.admin), needs=_ADMIN, refused=True),
    "Admin.reopen": Call(lambda w: w.admin.reopen(), needs=_ADMIN, refused=True),
    "Admin.close": Call(lambda w: w.close(w.admin), needs=_ADMIN, closes=True, surfaces=NO_BLOCK),
    # MQClientInstance
    "MQClientInstance.is_open, config, client_id": Call(
        lambda w: (w.client.is_open, w.client.config, w.client.client_id, repr(w.client))
    ),
    "MQClientInstance.statistics": Call(lambda w: w.client.statistics()),
    "MQClientInstance.start": Call(_started("MQClientInstance")),
    "MQClientInstance.run": Call(_run("MQClientInstance"), ("trio",)),
    "MQClientInstance.start, a second time": Call(lambda w: w.start(w.client), refused=True),
    "MQClientInstance.reopen": Call(lambda w: w.client.reopen(), refused=True),
    "replay_dead_letters": Call(lambda w: w.module.replay_dead_letters("nobody", client=w.client)),
    "MQClientInstance.close": Call(lambda w: w.close(w.client), closes=True, surfaces=NO_BLOCK),
}

_IN_ITS_BLOCK = "left by the end of its block, in the task that entered it"
_FOR_SURFACES = "what the other two surfaces are built on"
_OF_PRODUCERS = dict.fromkeys(
    (
        "admin",
        "batches",
        "config",
        "create_topic",
        "queues",
        "recall",
        "request",
        "send",
        "send_batch",
        "send_many",
        "send_oneway",
    ),
    "a producer's, tried there",
)
NOT_CALLS = {
    "trio": {
        "Producer": {"close": _IN_ITS_BLOCK},
        "TransactionProducer": {name: why for name, why in _OF_PRODUCERS.items() if name != "config"}
        | {"close": _IN_ITS_BLOCK},
        "PushConsumer": {"close": _IN_ITS_BLOCK},
        "LitePullConsumer": {"close": _IN_ITS_BLOCK},
        "PullConsumer": {"close": _IN_ITS_BLOCK},
        "Admin": {"close": _IN_ITS_BLOCK},
        "MQClientInstance": {
            "check_here": "called by roles",
            "check_open": _FOR_SURFACES,
            "close": _IN_ITS_BLOCK,
            "register_consumer": "called by roles",
            "register_producer": "called by roles",
            "services": "of the traces of roles",
            "unregister_consumer": "called by roles",
            "unregister_producer": "called by roles",
        },
    },
    "asyncio": {"MQClientInstance": {"trio_client": _FOR_SURFACES}, "TransactionProducer": _OF_PRODUCERS},
    "blocking": {
        "MQClientInstance": {"trio_client": _FOR_SURFACES},
        "TransactionProducer": _OF_PRODUCERS
        | dict.fromkeys(("request_soon", "send_soon"), "a producer's, tried there"),
    },
}
"""Public names that no user calls, each with the reason."""


def public(kind):
    """The public names of a class, entering and leaving included, as the names that the table has for them."""
    names = {name for name in dir(kind) if not name.startswith("_")}
    if hasattr(kind, "__aenter__") or hasattr(kind, "__enter__"):
        names |= {"start", "close"}
    return names - {"aclose"} | ({"close"} if "aclose" in names else set())


def calls_of(surface):
    """Return the names of the calls that exist on a surface."""
    return [name for name, call in CALLS.items() if surface in call.surfaces]
