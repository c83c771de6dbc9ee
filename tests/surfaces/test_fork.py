"""Forks: the child is told what to do, and the parent goes on as if nothing had happened."""

from __future__ import annotations

import os
import threading

import pytest

from rocketpy import ClientClosedError, Message, SendStatus
from rocketpy.sync import Admin
from tests.forking import in_child
from tests.surfaces.surface import SURFACES, call, entered

if not hasattr(os, "fork"):
    pytest.skip("there are no forks here", allow_module_level=True)


def first_step(awaitable):
    """The first step of something awaitable; there is no loop to run more in the child."""
    if hasattr(awaitable, "send"):
        awaitable.send(None)
    return "went on"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["send", "send_oneway", "send_batch", "send_many", "queues"])
def test_threat_L12_a_producer_used_in_a_child_says_what_to_do(surface, namesrv, topic, method):
    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            await call(producer.send(Message(topic, b"parent")))
            message = Message(topic, b"child")
            argument = {"send_batch": [message], "send_many": [message], "queues": topic}.get(method, message)
            said = in_child(lambda: first_step(getattr(producer, method)(argument)))
            assert said.startswith("ClientClosedError")
            assert "fork" in said
            assert "make a new one" in said
            assert (await call(producer.send(Message(topic, b"parent")))).status is SendStatus.SEND_OK
            assert in_child(lambda: (producer.is_open, repr(producer))) == "(False, '<Producer pg closed>')"

    surface.run(main)


def test_threat_L12_a_consumer_and_a_client_used_in_a_child_say_what_to_do(surface, namesrv, topic):
    async def main():
        async with entered(surface.module.MQClientInstance(namesrv=namesrv)) as client:
            assert in_child(lambda: client.is_open) == "False"
            async with entered(surface.module.PushConsumer("forked", client=client)) as consumer:
                said = in_child(lambda: first_step(consumer.wait_assigned(1)))
                assert said.startswith("ClientClosedError")
                assert "fork" in said
            assert client.is_open

    surface.run(main)


def health(consumer):
    """What a health check looks at."""
    status = consumer.status()
    return f"{status.state}, {len(consumer.assignment)} assigned, {len(status.queues)} queues, {status.balanced}"


@pytest.mark.slow
def test_threat_L12_what_a_consumer_says_of_itself_in_a_child_fools_no_health_check(surface, namesrv, topic):
    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            await call(producer.send(Message(topic, b"makes the topic")))
        async with entered(surface.module.MQClientInstance(namesrv=namesrv)) as client:
            push = surface.module.PushConsumer("healthy", client=client)
            lite = surface.module.LitePullConsumer("healthy-too", client=client)
            push.subscribe(topic, lambda message: None)
            lite.subscribe(topic)
            assert in_child(lambda: health(push)) == "not started, 0 assigned, 0 queues, False"
            async with entered(push), entered(lite):
                for consumer in (push, lite):
                    await call(consumer.wait_assigned(20))
                    before = health(consumer)
                    assert before.startswith("open, ")
                    assert not before.startswith("open, 0")
                    assert in_child(lambda one=consumer: health(one)) == "closed, 0 assigned, 0 queues, False"
                    assert in_child(lambda one=consumer: repr(one)).endswith(" closed>")
                    assert health(consumer) == before

    surface.run(main)


def test_threat_L12_what_was_made_before_a_fork_does_not_start_after_it(surface, namesrv):
    producer = surface.module.Producer("pg", namesrv=namesrv)

    def start():
        async def main():
            async with entered(producer):
                return "started"

        return surface.run(main)

    said = in_child(start)
    assert said.startswith("ClientClosedError")
    assert "fork" in said


def test_threat_L12_leaving_in_a_child_neither_hangs_nor_says_goodbye(surface, namesrv, topic):
    group = f"leaving-{topic}"

    def members():
        with Admin(namesrv=namesrv) as admin:
            return [member.client_id for member in admin.producers.connections(group)]

    async def main():
        producer = surface.module.Producer(group, namesrv=namesrv)
        async with entered(producer):
            await call(producer.send(Message(topic, b"parent")))
            before = members()
            assert len(before) == 1

            def leave():
                if surface.name == "blocking":
                    producer.close()
                else:
                    producer.__aexit__(None, None, None).send(None)  # where it waits, it would wait for ever
                    return "waits"
                return "left"

            if surface.name != "trio":  # where a whole loop was forked, its tasks cannot be unwound
                assert in_child(leave) == ("left" if surface.name == "blocking" else "StopIteration: ")
            assert members() == before
            assert (await call(producer.send(Message(topic, b"parent")))).status is SendStatus.SEND_OK

    surface.run(main)


def test_threat_L12_a_child_makes_a_new_one(surface, namesrv, topic):
    """From outside of any loop, as a server does that forks its workers."""

    async def send():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            return (await call(producer.send(Message(topic, b"x")))).status.name

    assert surface.run(send) == "SEND_OK"
    assert in_child(lambda: surface.run(send)) == "SEND_OK"
    assert surface.run(send) == "SEND_OK"


def test_threat_L12_a_lock_that_was_held_at_the_fork_does_not_hang_the_child(namesrv):
    producer = SURFACES["blocking"].module.Producer("pg", namesrv=namesrv)
    held, release = threading.Event(), threading.Event()

    def hold():
        with producer._gate._lock:
            held.set()
            release.wait(20)

    with producer:
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(10)

        def use():
            producer.close()
            for method in (producer.start, lambda: producer.send_soon(Message("T", b"x"))):
                with pytest.raises(ClientClosedError, match="fork"):
                    method()
            return "closed"

        try:
            assert in_child(use) == "closed"
        finally:
            release.set()
            thread.join(10)
