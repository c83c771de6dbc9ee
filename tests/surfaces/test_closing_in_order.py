"""Closing, exits and forks while sends go over data connections: what is under way is waited for, and nothing hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import rocketpy.aio
import rocketpy.sync
from rocketpy import Message
from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy.remoting.data.thread import ThreadConnection
from rocketpy_broker_sim import BlockingLocalCluster
from tests.aio.running import in_asyncio
from tests.forking import in_child

PATIENCE = 25.0
"""Seconds for a whole process, and less than the request takes that it must not wait for."""


@pytest.fixture(scope="module")
def namesrv():
    with BlockingLocalCluster() as running:
        yield running.name_server_addresses


@pytest.mark.slow
@in_asyncio
async def test_closing_an_asyncio_producer_in_order_waits_for_the_sends_of_other_tasks(namesrv):
    async with rocketpy.aio.Producer("closing", namesrv=namesrv) as producer:
        while not producer._inner.client.data_links.all():
            await producer.send(Message("Closing", b"warm"))
        sends = [asyncio.ensure_future(producer.send(Message("Closing", b"x", sharding_key="k"))) for _ in range(50)]
        sends += [asyncio.ensure_future(producer.send(Message("Closing", b"x"))) for _ in range(50)]
        await asyncio.sleep(0)
    assert all(send.done() for send in sends)
    assert all(send.result().queue_offset >= 0 for send in sends)


@pytest.mark.slow
@pytest.mark.waits("done-callbacks take their time while a program ends")
def test_the_end_of_the_interpreter_waits_for_done_callbacks(namesrv):
    program = textwrap.dedent(
        """
        import sys, time, rocketpy.sync
        from rocketpy import Message
        producer = rocketpy.sync.Producer("ending", namesrv=sys.argv[1])
        producer.start()
        def slow(future):
            time.sleep(0.05)
            print("called", flush=True)
        for _ in range(8):
            producer.send_soon(Message("Ending", b"x")).add_done_callback(slow)
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, namesrv], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["called"] * 8


@pytest.mark.slow
@pytest.mark.waits("a program ends with a request that nobody replies to")
def test_the_end_of_the_interpreter_waits_for_requests_and_says_how_many_had_no_reply(namesrv):
    program = textwrap.dedent(
        """
        import sys, rocketpy.sync
        from rocketpy import Message
        producer = rocketpy.sync.Producer("asking", namesrv=sys.argv[1], exit_timeout=0.3)
        producer.start()
        producer.send_soon(Message("Ending", b"x")).result()
        producer.request_soon(Message("Ending", b"x"), timeout=30)
        """
    )
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", program, namesrv], capture_output=True, text=True, timeout=60, check=False
    )
    assert time.monotonic() - began < PATIENCE
    assert ended.returncode == 0, ended.stderr
    waited, lost, *_ = ended.stderr.splitlines()
    assert waited.startswith("rocketpy: waiting up to 0.3 s for 1 message of producer asking")
    assert lost == "rocketpy: 1 request of producer asking got no reply before the process ended"
    assert "Traceback" not in ended.stderr


def test_a_send_that_would_wait_for_the_one_it_has_interrupted_is_refused(namesrv, monkeypatch):
    caught = []
    with rocketpy.sync.Producer("keyed", namesrv=namesrv) as producer:
        producer.send(Message("Keyed", b"warm"))

        def handler(number, frame):
            with pytest.raises(ConfigError, match="hand the message to another thread") as refused:
                producer.send(Message("Keyed", b"inner", sharding_key="k"))
            caught.append(refused)

        exchange = ThreadConnection.exchange

        def interrupted(*args):
            if not caught:
                os.kill(os.getpid(), signal.SIGUSR1)
            return exchange(*args)

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            while not producer._inner.client.data_links.all():
                producer.send(Message("Keyed", b"warm"))
            monkeypatch.setattr(ThreadConnection, "exchange", interrupted)
            producer.send(Message("Keyed", b"outer", sharding_key="k"))
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert len(caught) == 1


def test_a_child_does_not_wait_for_what_its_parent_has_sent(namesrv, monkeypatch):
    with rocketpy.sync.Producer("forked", namesrv=namesrv) as producer:
        producer.send(Message("Forked", b"warm"))
        monkeypatch.setattr(type(producer._inner.outside), "start", lambda *args: None)
        monkeypatch.setattr(ThreadConnection, "start_request", lambda *args: None)
        future = producer.send_soon(Message("Forked", b"x"))
        began = time.monotonic()
        report = in_child(lambda: future.result(PATIENCE))
        assert report.startswith(ClientClosedError.__name__)
        assert time.monotonic() - began < PATIENCE
        future.complete(ClientClosedError("the test is over"))
        assert future.exception() is not None
        for soon in list(producer._gate._inside):
            producer._gate.leave(soon)
