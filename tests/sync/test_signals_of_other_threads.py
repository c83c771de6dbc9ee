"""A signal that the system gives to another thread: Python calls its handler in the main one, and does not wake it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.waits("nothing tells that the main thread has gone from Python into its wait")


def ended(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program that may use `strike`, which has the signal of that number given to a thread that is not the main one,
    once the main one waits."""
    beginning = """
        import signal, sys, threading, time, trio
        from rocketpy.portal import portal
        def strike(number):
            def when_it_waits():
                time.sleep(0.2)
                signal.pthread_kill(threading.get_ident(), number)
            threading.Thread(target=when_it_waits).start()
    """
    text = textwrap.dedent(beginning) + textwrap.dedent(program)
    return subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("surface", ["blocking", "trio", "asyncio"])
def test_it_ends_run_forever(namesrv: str, surface: str) -> None:
    process = ended(
        """
        import asyncio, rocketpy, rocketpy.aio, rocketpy.sync
        surface, namesrv = sys.argv[1:]
        kind = {"blocking": rocketpy.sync, "trio": rocketpy, "asyncio": rocketpy.aio}[surface].PushConsumer
        consumer = kind("astray", namesrv=namesrv)
        if surface == "blocking":
            with consumer:
                strike(signal.SIGTERM)
                consumer.run_forever()
        else:
            async def main():
                async with consumer:
                    strike(signal.SIGTERM)
                    await consumer.run_forever()
            trio.run(main) if surface == "trio" else asyncio.run(main())
        print("closed")
        """,
        surface,
        namesrv,
    )
    assert (process.stdout, process.stderr, process.returncode) == ("closed\n", "", 0)


def test_it_interrupts_a_call_that_waits_in_the_portal() -> None:
    process = ended(
        """
        home = portal()
        strike(signal.SIGINT)
        try:
            home.call(trio.sleep_forever)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    assert (process.stdout, process.stderr, process.returncode) == ("interrupted\n", "", 0)


@pytest.mark.slow
def test_it_interrupts_a_send_that_waits_for_its_turn_or_its_answer(namesrv: str) -> None:
    process = ended(
        """
        from rocketpy.sync import Message, Producer
        with Producer("pg", namesrv=sys.argv[1], send_timeout=60) as producer:
            producer.create_topic("Astray")
            producer.send(Message("Astray", b"x"))
            order, key = producer._direct.core.order, ("Astray", "k")
            assert order.try_take(key)
            strike(signal.SIGINT)
            begun = time.monotonic()
            try:
                producer.send(Message("Astray", b"x", sharding_key="k"))
            except KeyboardInterrupt:
                print("interrupted" if time.monotonic() - begun < 20 else "late")
            order.pass_on(key)
        from rocketpy.remoting.data.reading import Reading
        from rocketpy.remoting.data.call import Call
        reading = Reading.__new__(Reading)
        reading.active, reading._clock = True, time.monotonic
        strike(signal.SIGINT)
        begun = time.monotonic()
        try:
            reading.wait(Call(begun + 60))
        except KeyboardInterrupt:
            print("interrupted" if time.monotonic() - begun < 20 else "late")
        """,
        namesrv,
    )
    assert (process.stdout, process.stderr, process.returncode) == ("interrupted\n" * 2, "", 0)


@pytest.mark.slow
def test_it_interrupts_whatever_else_waits() -> None:
    process = ended(
        """
        from rocketpy.client.lifecycle import forks
        from rocketpy.portal import waiting
        from rocketpy.sync.future import Callbacks, SendFuture, Surroundings
        from rocketpy.sync.gate import Gate
        from rocketpy.sync.unseen import Failures
        full = Gate(1, 1)
        full.enter("ticket", 1)
        future = SendFuture(Surroundings(lambda _timeout: None, Callbacks("p"), Failures("p"), forks()))
        for wait in (
            lambda: full.enter("another", 1),
            lambda: full.wait_empty(None),
            lambda: full.wait_empty(60),
            lambda: future.result(),
            lambda: future.exception(60),
            lambda: waiting.wait(threading.Event()),
        ):
            strike(signal.SIGINT)
            try:
                wait()
            except KeyboardInterrupt:
                print("interrupted")
        """
    )
    assert (process.stdout, process.stderr, process.returncode) == ("interrupted\n" * 6, "", 0)
