"""Hooks around sends, and traces, on every surface: every way to send calls them, and is told of a refusal."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextvars import ContextVar

import pytest
import trio

import rocketpy.sync
from rocketpy import ConfigError, LocalTransactionState, Message, SendManyError, SendStatus, decode_traces
from rocketpy.sync import PullConsumer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.surfaces.surface import call, entered

COMMIT = LocalTransactionState.COMMIT
TRACES = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture(scope="module")
def tracing():
    """A cluster that has the topic of traces."""
    with BlockingLocalCluster(trace_topic_enable=True) as running:
        running.create_topic("Orders")
        yield running


PAUSES = {"trio": trio.sleep, "asyncio": asyncio.sleep, "blocking": time.sleep}


class NotToday(Exception):
    """What forbids a send."""


class Hooks:
    """Counts tries by the body of their first message, and forbids some."""

    def __init__(self):
        self.before, self.after, self.threads = Counter(), Counter(), set()

    def check_forbidden(self, context):
        if context.messages[0].body.startswith(b"forbidden"):
            raise NotToday("never on a Sunday")

    def before_send(self, context):
        self.before[context.messages[0].body] += 1
        self.threads.add(threading.get_ident())

    def after_send(self, context, outcome):
        assert (outcome is None) == context.oneway
        self.after[context.messages[0].body] += 1

    @property
    def settings(self):
        return {name: getattr(self, name) for name in ("check_forbidden", "before_send", "after_send")}


def ways(surface, producer, topic):
    """Every way to send a message with a body."""

    def of(body, **fields):
        return Message(topic, body, **fields)

    found = {
        "send": lambda body: producer.send(of(body)),
        "send, key": lambda body: producer.send(of(body, sharding_key="k")),
        "send, selector": lambda body: producer.send(of(body), selector=lambda queues, message, arg: queues[0]),
        "send_oneway": lambda body: producer.send_oneway(of(body)),
        "send_batch": lambda body: producer.send_batch([of(body), of(body)]),
        "send_many": lambda body: producer.send_many([of(body), of(body)]),
        "send_in_transaction": lambda body: producer.send_in_transaction(of(body)),
    }
    if surface.name == "blocking":
        found["send_soon"] = lambda body: producer.send_soon(of(body)).result(10)
    return found


async def check(message):
    return COMMIT


@pytest.mark.parametrize("linger", [None, 0.005])
def test_every_way_to_send_calls_them_and_is_told_of_a_refusal(surface, tracing, linger):
    hooks = Hooks()

    async def main():
        settings = {"namesrv": tracing.name_server_addresses, "linger": linger, **hooks.settings}
        functions = {"checker": check, "executor": lambda message, arg: COMMIT}
        async with entered(surface.module.TransactionProducer("pg", **functions, **settings)) as producer:
            for name, way in ways(surface, producer, "Orders").items():
                for turn in range(3):  # the first has no connection, the others may go over a data connection
                    await call(way(b"%s %d" % (name.encode(), turn)))
                with pytest.raises((NotToday, SendManyError)) as caught:
                    await call(way(b"forbidden"))
                error = caught.value if isinstance(caught.value, NotToday) else caught.value.__cause__
                assert isinstance(error, NotToday), name

    surface.run(main)
    names = [name.encode() for name in ways(surface, None, "Orders")]
    assert hooks.before == hooks.after == {b"%s %d" % (name, turn): 1 for name in names for turn in range(3)}
    if surface.name == "blocking" and linger is None:
        assert threading.get_ident() in hooks.threads


def test_the_first_send_calls_hooks_in_the_background_without_the_context_of_the_sender(surface, tracing):
    request, found = ContextVar("request", default=None), []

    def before(context):
        found.append((threading.current_thread().name, request.get()))

    async def main():
        async with entered(
            surface.module.Producer("pg", namesrv=tracing.name_server_addresses, before_send=before)
        ) as producer:
            request.set(7)
            await call(producer.send(Message("Orders", b"first")))

    surface.run(main)
    here = threading.current_thread().name
    assert found == ([(here, 7)] if surface.name == "trio" else [("rocketpy-hooks", None)])


class Unused:
    """A hook of requests."""

    def before_request(self, address, command):
        pass

    def after_answer(self, address, command, answer):
        pass


def hooks_threads():
    return {thread for thread in threading.enumerate() if thread.name == "rocketpy-hooks"}


@pytest.mark.parametrize("shares", [True, False])
def test_the_thread_of_hooks_ends_with_the_producer_and_its_client(surface, tracing, shares):
    """Of a client of its own, or of a shared one, which other producers use before."""
    before, during = hooks_threads(), set()

    async def main():
        module, settings = surface.module, {"namesrv": tracing.name_server_addresses}
        if not shares:
            async with entered(module.Producer("pg", before_send=lambda context: None, **settings)) as producer:
                await call(producer.send(Message("Orders", b"first")))
                during.update(hooks_threads() - before)
            return
        async with entered(module.MQClientInstance(hooks=[Unused()], **settings)) as client:
            async with entered(module.Producer("pg", client=client)) as producer:
                await call(producer.send(Message("Orders", b"first")))
            async with entered(module.Producer("pg", client=client)) as producer:
                await call(producer.send(Message("Orders", b"second")))
                during.update(hooks_threads() - before)

    surface.run(main)
    assert len(during) == (surface.name != "trio")
    for thread in during:
        thread.join(5)
        assert not thread.is_alive()


def test_a_hook_that_waits_for_its_own_producer_is_refused_and_harms_nobody(surface, tracing):
    errors = []

    async def main():
        async with entered(surface.module.Producer("pg", namesrv=tracing.name_server_addresses)) as plain:

            def before(context):
                if surface.name == "blocking" and context.messages[0].body == b"outer":
                    try:
                        plain.send(Message("Orders", b"inner"))
                    except ConfigError as error:
                        errors.append(error)

            settings = {"namesrv": tracing.name_server_addresses, "before_send": before}
            async with entered(surface.module.Producer("pg2", **settings)) as producer:
                for _ in range(5):
                    await call(producer.send(Message("Orders", b"outer"), timeout=10))

    surface.run(main)
    assert len(errors) <= 1  # where the first try is made in the loop


@pytest.mark.parametrize("linger", [None, 0.01])
def test_a_hook_that_waits_for_a_future_of_its_own_producer_is_refused(tracing, linger):
    futures, errors = [], []

    def before(context):
        if threading.current_thread().name != "rocketpy-hooks" or context.messages[0].body != b"outer":
            return
        future = producer.send_soon(Message("Orders", b"inner"))
        futures.append(future)
        for wait in (lambda: future.result(0), future.result, lambda: future.exception(60)):
            try:
                wait()
            except (ConfigError, TimeoutError) as error:
                errors.append(error)

    settings = {"namesrv": tracing.name_server_addresses, "before_send": before, "linger": linger}
    with rocketpy.sync.Producer("pg", **settings) as producer:
        producer.send(Message("Orders", b"outer"), timeout=60)
        assert futures[0].result(60).status is SendStatus.SEND_OK
    assert [type(error) for error in errors[:3]] == [TimeoutError, ConfigError, ConfigError]
    assert not errors[1].nothing_sent


def records(cluster):
    found = []
    with PullConsumer("reader", namesrv=cluster.name_server_addresses) as reader:
        for queue in reader.fetch_message_queues(TRACES):
            offset = reader.beginning_offset(queue)
            while offset < reader.end_offset(queue):
                result = reader.pull(queue, offset)
                offset = result.next_begin_offset
                found += [record for message in result.messages for record in decode_traces(message.body)]
    return found


@pytest.mark.slow
@pytest.mark.waits("messages come to listeners over sockets")
@pytest.mark.parametrize("linger", [None, 0.005])
def test_every_way_to_send_and_every_kind_of_listener_is_traced(surface, tracing, linger):
    group = f"{surface.name}-{linger is not None}"
    ids, got = set(), set()

    def plain(message):
        got.add(message.message_id)

    async def listener(message):
        got.add(message.message_id)

    async def main():
        where = {"namesrv": tracing.name_server_addresses, "enable_msg_trace": True}
        functions = {"checker": check, "executor": lambda message, arg: COMMIT}
        consumer = surface.module.PushConsumer(f"c-{group}", **where)
        consumer.subscribe("Orders", plain if surface.name == "blocking" else listener)
        async with entered(consumer):
            producer = surface.module.TransactionProducer(f"p-{group}", linger=linger, **functions, **where)
            async with entered(producer):
                for name, way in ways(surface, producer, "Orders").items():
                    if name == "send_oneway":
                        continue
                    for _ in range(3):
                        result = await call(way(b"x"))
                        if hasattr(result, "message_id"):
                            ids.update(result.message_id.split(","))
                while not got >= ids:
                    await call(PAUSES[surface.name](0.01))

    surface.run(main)
    found = records(tracing)
    sent = {each for record in found if record.group == f"p-{group}" for each in record.message_id.split(",")}
    assert len(ids) == (21 if surface.name == "blocking" else 18)
    assert sent >= ids
    ends = [record for record in found if record.group == f"p-{group}" and record.kind == "EndTransaction"]
    assert len(ends) == 3
    consumed = [record.message_id for record in found if record.group == f"c-{group}" and record.kind == "SubAfter"]
    assert set(consumed) == got >= ids
