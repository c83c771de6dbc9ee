"""Ctrl-C while a listener runs: closing waits for it, says so, and a second Ctrl-C ends the wait, on every surface."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest

from rocketpy import Message
from rocketpy.sync import Producer
from rocketpy_broker_sim import BlockingLocalCluster

PROGRAMS = {
    "blocking": """
        import sys, threading, time, rocketpy.sync
        entered = threading.Event()
        def listen(message):
            entered.set()
            time.sleep(120)
        with rocketpy.sync.PushConsumer("g", namesrv=sys.argv[1], await_termination=100, **FIRST) as consumer:
            consumer.subscribe("T", listen)
            entered.wait()
            print("entered", flush=True)
            time.sleep(100)
    """,
    "trio": """
        import sys, trio, rocketpy
        async def main():
            entered = trio.Event()
            async def listen(message):
                entered.set()
                await trio.sleep_forever()
            async with rocketpy.PushConsumer("g", namesrv=sys.argv[1], await_termination=100, **FIRST) as consumer:
                consumer.subscribe("T", listen)
                await entered.wait()
                print("entered", flush=True)
                await trio.sleep_forever()
        trio.run(main)
    """,
    "asyncio": """
        import asyncio, sys, rocketpy.aio
        async def main():
            entered = asyncio.Event()
            async def listen(message):
                entered.set()
                await asyncio.sleep(120)
            async with rocketpy.aio.PushConsumer("g", namesrv=sys.argv[1], await_termination=100, **FIRST) as consumer:
                consumer.subscribe("T", listen)
                await entered.wait()
                print("entered", flush=True)
                await asyncio.sleep(100)
        asyncio.run(main())
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("surface", PROGRAMS)
def test_a_second_ctrl_c_ends_the_wait_that_the_first_one_began(surface: str) -> None:
    first = "FIRST = {'consume_from_where': 'CONSUME_FROM_FIRST_OFFSET'}\n"
    program = first + textwrap.dedent(PROGRAMS[surface])
    with BlockingLocalCluster() as cluster:
        with Producer("pg", namesrv=cluster.name_server_addresses) as producer:
            producer.send(Message("T", b"x"))
        command = [sys.executable, "-c", program, cluster.name_server_addresses]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "entered\n"
            process.send_signal(signal.SIGINT)
            said = next(line for line in process.stderr if line.startswith("closing the consumer"))
            struck = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            took = time.monotonic() - struck
    assert said.startswith("closing the consumer of group g: waiting up to 99 s for 1 listener call (T@broker-a:")
    assert "KeyboardInterrupt" in errors
    assert process.returncode == -signal.SIGINT
    assert took < 30, "the process ends after what its end may take, and not after the listener"
