"""The public calls of the five classes on the three surfaces, as functions of a world. Every name is in a table."""

from __future__ import annotations

import attrs

from rocketpy import ClientClosedError, ReplyTimeoutError, RequestTimeoutError
from rocketpy.message import Message, MessageExt

__all__ = ["CALLS", "CLASSES", "FUNCTIONS", "NOT_CALLS", "SURFACES", "Call", "calls_of", "public"]

SURFACES = ("trio", "asyncio", "blocking")
NO_BLOCK = ("asyncio", "blocking")
"""Where an object can be closed otherwise than by the end of its block."""
CLASSES = ("Producer", "PushConsumer", "LitePullConsumer", "PullConsumer", "MQClientInstance")
FUNCTIONS = ("replay_dead_letters",)


@attrs.frozen
class Call:
    """One way to call something.

    Attributes:
        make: given a world, makes it; the answer may have to be awaited.
        surfaces: where there is such a call.
        consumer: whether the world needs a running consumer for it.
        pullers: whether it needs a running lite pull consumer and a pull consumer.
        closes: whether the object of the place is closed by it.
        allowed: errors that are an answer to it.
        waits: whether it waits for another send; not to be done on the thread that would complete that one.
        refused: whether it is refused everywhere.
        linger: of the producer.
    """

    make: object
    surfaces: tuple[str, ...] = SURFACES
    consumer: bool = False
    pullers: bool = False
    closes: bool = False
    allowed: tuple[type, ...] = ()
    waits: bool = False
    refused: bool = False
    linger: float | None = None


def one():
    return Message("Orders", b"from a cell")


def _nothing(*_):
    pass


async def _nothing_async(*_):
    pass


def _subscribed_and_not(world):
    consumer = world.new("LitePullConsumer")
    consumer.subscribe("Orders", tags="a")
    consumer.unsubscribe("Orders")


def _subscribed_by_sql(world):
    consumer = world.new("LitePullConsumer")
    consumer.subscribe("Orders", sql="a BETWEEN 1 AND 3")
    consumer.subscribe("Orders", sql="a IS NULL")


def _from_nowhere():
    return MessageExt("Orders", b"of another time", broker_name="broker-a")


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
    "Producer.send_many": Call(lambda w: w.producer.send_many([one() for _ in range(30)], batch_size=4)),
    "Producer.queues": Call(lambda w: w.producer.queues("Orders")),
    "Producer.create_topic": Call(lambda w: w.producer.create_topic("Orders", queues=4)),
    "Producer.is_open, config": Call(lambda w: (w.producer.is_open, w.producer.config, repr(w.producer))),
    "Producer.start": Call(_started("Producer")),
    "Producer.start, a second time": Call(lambda w: w.start(w.producer), refused=True),
    "Producer.reopen": Call(lambda w: w.producer.reopen(), refused=True),
    "Producer.close": Call(lambda w: w.close(w.producer), closes=True, surfaces=NO_BLOCK),
    "Producer.send, closed": Call(lambda w: w.closed_producer.send(one()), refused=True),
    # PushConsumer
    "PushConsumer.subscribe, plain": Call(lambda w: w.consumer.subscribe("Orders", _nothing), consumer=True),
    "PushConsumer.subscribe, async": Call(lambda w: w.consumer.subscribe("Orders", _nothing_async), consumer=True),
    "PushConsumer.subscribe, sql": Call(
        lambda w: w.consumer.subscribe("Orders", _nothing, sql="a IS NULL"), consumer=True
    ),
    "PushConsumer.unsubscribe": Call(lambda w: w.consumer.unsubscribe("Spare"), consumer=True),
    "PushConsumer.assignment": Call(lambda w: w.consumer.assignment, consumer=True),
    "PushConsumer.wait_assigned": Call(
        lambda w: w.consumer.wait_assigned(0.5), consumer=True, allowed=(RequestTimeoutError,)
    ),
    "PushConsumer.pause": Call(lambda w: w.consumer.pause("Spare"), consumer=True),
    "PushConsumer.resume": Call(lambda w: w.consumer.resume(), consumer=True),
    "PushConsumer.set_consume_thread_max": Call(lambda w: w.consumer.set_consume_thread_max(10), consumer=True),
    "PushConsumer.commit": Call(lambda w: w.consumer.commit(2), consumer=True, allowed=(RequestTimeoutError,)),
    "PushConsumer.status": Call(lambda w: w.consumer.status(), consumer=True),
    "PushConsumer.statistics, config": Call(lambda w: (w.consumer.statistics(), w.consumer.config), consumer=True),
    "PushConsumer.run_forever": Call(lambda w: w.closed_consumer.run_forever(), allowed=(ClientClosedError,)),
    "PushConsumer.start": Call(_started("PushConsumer")),
    "PushConsumer.start, a second time": Call(lambda w: w.start(w.consumer), consumer=True, refused=True),
    "PushConsumer.reopen": Call(lambda w: w.consumer.reopen(), consumer=True, refused=True),
    "PushConsumer.close": Call(lambda w: w.close(w.consumer), consumer=True, closes=True, surfaces=NO_BLOCK),
    # LitePullConsumer
    "LitePullConsumer.subscribe, unsubscribe": Call(_subscribed_and_not),
    "LitePullConsumer.subscribe, sql": Call(_subscribed_by_sql),
    "LitePullConsumer.assign": Call(lambda w: w.lite.assign([w.queue]), pullers=True),
    "LitePullConsumer.on_queues_changed": Call(lambda w: w.lite.on_queues_changed("Orders", _nothing), pullers=True),
    "LitePullConsumer.fetch_message_queues": Call(lambda w: w.lite.fetch_message_queues("Orders"), pullers=True),
    "LitePullConsumer.poll": Call(lambda w: w.lite.poll(5, timeout=0.1), pullers=True),
    "LitePullConsumer.commit": Call(lambda w: w.lite.commit({w.queue: 0}), pullers=True),
    "LitePullConsumer.commit_soon": Call(lambda w: w.lite.commit_soon(), pullers=True),
    "LitePullConsumer.ack": Call(lambda w: w.lite.ack(_from_nowhere()), pullers=True),
    "LitePullConsumer.position": Call(lambda w: w.lite.position(w.queue), pullers=True),
    "LitePullConsumer.committed": Call(lambda w: w.lite.committed(w.queue), pullers=True),
    "LitePullConsumer.beginning_offset": Call(lambda w: w.lite.beginning_offset(w.queue), pullers=True),
    "LitePullConsumer.end_offset": Call(lambda w: w.lite.end_offset(w.queue), pullers=True),
    "LitePullConsumer.offset_for_timestamp": Call(lambda w: w.lite.offset_for_timestamp(w.queue, 0), pullers=True),
    "LitePullConsumer.lag": Call(lambda w: w.lite.lag(), pullers=True),
    "LitePullConsumer.seek": Call(lambda w: w.lite.seek(w.queue, 0), pullers=True),
    "LitePullConsumer.seek_to_begin": Call(lambda w: w.lite.seek_to_begin(w.queue), pullers=True),
    "LitePullConsumer.seek_to_end": Call(lambda w: w.lite.seek_to_end(w.queue), pullers=True),
    "LitePullConsumer.seek_to_timestamp": Call(lambda w: w.lite.seek_to_timestamp(w.queue, 0), pullers=True),
    "LitePullConsumer.pause": Call(lambda w: w.lite.pause([w.queue]), pullers=True),
    "LitePullConsumer.resume": Call(lambda w: w.lite.resume([w.queue]), pullers=True),
    "LitePullConsumer.assignment, status, statistics, config": Call(
        lambda w: (w.lite.assignment, w.lite.status(), w.lite.statistics(), w.lite.config, repr(w.lite)), pullers=True
    ),
    "LitePullConsumer.wait_assigned": Call(lambda w: w.lite.wait_assigned(5), pullers=True),
    "LitePullConsumer.start": Call(_started("LitePullConsumer")),
    "LitePullConsumer.start, a second time": Call(lambda w: w.start(w.lite), pullers=True, refused=True),
    "LitePullConsumer.reopen": Call(lambda w: w.lite.reopen(), pullers=True, refused=True),
    "LitePullConsumer.close": Call(lambda w: w.close(w.lite), pullers=True, closes=True, surfaces=NO_BLOCK),
    # PullConsumer
    "PullConsumer.pull": Call(lambda w: w.puller.pull(w.queue, 0), pullers=True),
    "PullConsumer.pull_block_if_not_found": Call(lambda w: w.puller.pull_block_if_not_found(w.queue, 0), pullers=True),
    "PullConsumer.update_consume_offset": Call(lambda w: w.puller.update_consume_offset(w.queue, 0), pullers=True),
    "PullConsumer.fetch_consume_offset": Call(lambda w: w.puller.fetch_consume_offset(w.queue), pullers=True),
    "PullConsumer.beginning_offset": Call(lambda w: w.puller.beginning_offset(w.queue), pullers=True),
    "PullConsumer.end_offset": Call(lambda w: w.puller.end_offset(w.queue), pullers=True),
    "PullConsumer.offset_for_timestamp": Call(lambda w: w.puller.offset_for_timestamp(w.queue, 0), pullers=True),
    "PullConsumer.fetch_message_queues": Call(lambda w: w.puller.fetch_message_queues("Orders"), pullers=True),
    "PullConsumer.config": Call(lambda w: (w.puller.config, repr(w.puller)), pullers=True),
    "PullConsumer.start": Call(_started("PullConsumer")),
    "PullConsumer.start, a second time": Call(lambda w: w.start(w.puller), pullers=True, refused=True),
    "PullConsumer.reopen": Call(lambda w: w.puller.reopen(), pullers=True, refused=True),
    "PullConsumer.close": Call(lambda w: w.close(w.puller), pullers=True, closes=True, surfaces=NO_BLOCK),
    # MQClientInstance
    "MQClientInstance.is_open, config, client_id": Call(
        lambda w: (w.client.is_open, w.client.config, w.client.client_id, repr(w.client))
    ),
    "MQClientInstance.start": Call(_started("MQClientInstance")),
    "MQClientInstance.start, a second time": Call(lambda w: w.start(w.client), refused=True),
    "MQClientInstance.reopen": Call(lambda w: w.client.reopen(), refused=True),
    "replay_dead_letters": Call(lambda w: w.module.replay_dead_letters("nobody", client=w.client)),
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
            "adopt": _FOR_SURFACES,
            "client_closing": "called by the client",
            "close": _IN_ITS_BLOCK,
            "consumer_data": "called by the heartbeat",
            "driven": "called by what brokers ask",
            "in_listener": _FOR_SURFACES,
            "on_route_changed": "called by the client",
            "rebalance_now": "called by what brokers ask",
            "topics": "called by the heartbeat",
        },
        "LitePullConsumer": {
            "acknowledge": _FOR_SURFACES,
            "adopt": _FOR_SURFACES,
            "check_open": _FOR_SURFACES,
            "client_closing": "called by the client",
            "close": _IN_ITS_BLOCK,
            "consumer_data": "called by the heartbeat",
            "driven": "called by what brokers ask",
            "give_back": _FOR_SURFACES,
            "has_ended": _FOR_SURFACES,
            "in_hook": _FOR_SURFACES,
            "lend": _FOR_SURFACES,
            "on_route_changed": "called by the client",
            "rebalance_now": "called by what brokers ask",
            "topics": "called by the heartbeat",
        },
        "PullConsumer": {
            "client_closing": "called by the client",
            "close": _IN_ITS_BLOCK,
            "consumer_data": "called by the heartbeat",
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
