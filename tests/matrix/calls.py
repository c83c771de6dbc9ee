"""The public calls of the three classes on the three surfaces, as functions of a world. Every name is in a table."""

from __future__ import annotations

import attrs

from rocketpy import ClientClosedError, RequestTimeoutError
from rocketpy.message import Message

__all__ = ["CALLS", "CLASSES", "NOT_CALLS", "SURFACES", "Call", "calls_of", "public"]

SURFACES = ("trio", "asyncio", "blocking")
NO_BLOCK = ("asyncio", "blocking")
"""Where an object can be closed otherwise than by the end of its block."""
CLASSES = ("Producer", "PushConsumer", "MQClientInstance")


@attrs.frozen
class Call:
    """One way to call something.

    Attributes:
        make: given a world, makes it; the answer may have to be awaited.
        surfaces: where there is such a call.
        consumer: whether the world needs a running consumer for it.
        closes: whether the object of the place is closed by it.
        allowed: errors that are an answer to it.
        waits: whether it waits for another send; not to be done on the thread that would complete that one.
        refused: whether it is refused everywhere.
    """

    make: object
    surfaces: tuple[str, ...] = SURFACES
    consumer: bool = False
    closes: bool = False
    allowed: tuple[type, ...] = ()
    waits: bool = False
    refused: bool = False


def one():
    return Message("Orders", b"from a cell")


def _nothing(*_):
    pass


async def _nothing_async(*_):
    pass


def _started(kind):
    """Start one of this kind and close it again; on the other surfaces, enter and leave it."""

    def make(world):
        return world.open_and_close(world.new(kind))

    return make


CALLS = {
    # Producer
    "Producer.send": Call(lambda w: w.producer.send(one())),
    "Producer.send, a key": Call(lambda w: w.producer.send(Message("Orders", b"x", sharding_key="k"))),
    "Producer.send, a queue": Call(lambda w: w.producer.send(one(), queue=w.queue)),
    "Producer.send, a selector": Call(lambda w: w.producer.send(one(), selector=lambda queues, m, a: queues[0])),
    "Producer.send_soon": Call(lambda w: w.keep(w.producer.send_soon(one())), ("blocking",)),
    "Producer.send_soon, its result": Call(lambda w: w.producer.send_soon(one()).result(4), ("blocking",), waits=True),
    "Producer.send_oneway": Call(lambda w: w.producer.send_oneway(one())),
    "Producer.send_batch": Call(lambda w: w.producer.send_batch([one(), one()])),
    "Producer.send_many": Call(lambda w: w.producer.send_many([one() for _ in range(30)], batch_size=4)),
    "Producer.queues": Call(lambda w: w.producer.queues("Orders")),
    "Producer.create_topic": Call(lambda w: w.producer.create_topic("Orders", queues=4)),
    "Producer.is_open, config": Call(lambda w: (w.producer.is_open, w.producer.config, repr(w.producer))),
    "Producer.start": Call(_started("Producer")),
    "Producer.start, a second time": Call(lambda w: w.start(w.producer), refused=True),
    "Producer.close": Call(lambda w: w.close(w.producer), closes=True, surfaces=NO_BLOCK),
    "Producer.send, closed": Call(lambda w: w.closed_producer.send(one()), refused=True),
    # PushConsumer
    "PushConsumer.subscribe, plain": Call(lambda w: w.consumer.subscribe("Orders", _nothing), consumer=True),
    "PushConsumer.subscribe, async": Call(lambda w: w.consumer.subscribe("Orders", _nothing_async), consumer=True),
    "PushConsumer.unsubscribe": Call(lambda w: w.consumer.unsubscribe("Spare"), consumer=True),
    "PushConsumer.assignment": Call(lambda w: w.consumer.assignment, consumer=True),
    "PushConsumer.wait_assigned": Call(
        lambda w: w.consumer.wait_assigned(0.5), consumer=True, allowed=(RequestTimeoutError,)
    ),
    "PushConsumer.status": Call(lambda w: w.consumer.status(), consumer=True),
    "PushConsumer.statistics, config": Call(lambda w: (w.consumer.statistics(), w.consumer.config), consumer=True),
    "PushConsumer.run_forever": Call(lambda w: w.closed_consumer.run_forever(), allowed=(ClientClosedError,)),
    "PushConsumer.start": Call(_started("PushConsumer")),
    "PushConsumer.start, a second time": Call(lambda w: w.start(w.consumer), consumer=True, refused=True),
    "PushConsumer.close": Call(lambda w: w.close(w.consumer), consumer=True, closes=True, surfaces=NO_BLOCK),
    # MQClientInstance
    "MQClientInstance.is_open, config, client_id": Call(
        lambda w: (w.client.is_open, w.client.config, w.client.client_id, repr(w.client))
    ),
    "MQClientInstance.start": Call(_started("MQClientInstance")),
    "MQClientInstance.start, a second time": Call(lambda w: w.start(w.client), refused=True),
    "MQClientInstance.close": Call(lambda w: w.close(w.client), closes=True, surfaces=NO_BLOCK),
}

_IN_ITS_BLOCK = "left by the end of its block, in the task that entered it"
_FOR_SURFACES = "what the other two surfaces are built on"
NOT_CALLS = {
    "trio": {
        "Producer": dict.fromkeys(
            (
                "check_open",
                "checked_timeout",
                "client_closing",
                "ensure_route",
                "on_route_changed",
                "prepare_many",
                "start_send",
            ),
            _FOR_SURFACES,
        )
        | {"close": _IN_ITS_BLOCK},
        "PushConsumer": {
            "client_closing": "called by the client",
            "close": _IN_ITS_BLOCK,
            "consumer_data": "called by the heartbeat",
            "in_listener": _FOR_SURFACES,
            "on_route_changed": "called by the client",
            "rebalance_now": "called by what brokers ask",
            "topics": "called by the heartbeat",
        },
        "MQClientInstance": {
            "check_here": "called by roles",
            "check_open": _FOR_SURFACES,
            "close": _IN_ITS_BLOCK,
            "register_consumer": "called by roles",
            "register_producer": "called by roles",
            "unregister_consumer": "called by roles",
            "unregister_producer": "called by roles",
        },
    },
    "asyncio": {"MQClientInstance": {"trio_client": _FOR_SURFACES}},
    "blocking": {"MQClientInstance": {"trio_client": _FOR_SURFACES}},
}
"""Public names that no user calls, each with the reason."""


def public(kind):
    """The public names of a class, entering and leaving included, as the names that the table has for them."""
    names = {name for name in dir(kind) if not name.startswith("_")}
    if hasattr(kind, "__aenter__") or hasattr(kind, "__enter__"):
        names |= {"start", "close"}
    return names - {"aclose"} | ({"close"} if "aclose" in names else set())


def calls_of(surface):
    """The names of the calls that there are on a surface."""
    return [name for name, call in CALLS.items() if surface in call.surfaces]
