"""`send_soon` returns a future like those of the standard library. The cases run in a worker."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from contextlib import contextmanager, suppress

from rocketpy import RocketMQError
from rocketpy.message import Message
from rocketpy.sync import Producer, SendStatus
from rocketpy.wire.codes import ResponseCode
from tests.garbage import garbage
from tests.matrix.cells import cluster
from tests.matrix.worlds import unique


def one():
    return Message("Orders", b"x")


@contextmanager
def open_producer(**settings):
    with Producer(unique("pg"), namesrv=cluster().name_server_addresses, **settings) as producer:
        producer.send(one())
        yield producer


@contextmanager
def refusing():
    """Every send is refused for good."""
    cluster().refuse_sends(100_000, code=int(ResponseCode.MESSAGE_ILLEGAL))
    try:
        yield
    finally:
        cluster().heal()


@contextmanager
def delayed(seconds, times=1):
    cluster().delay_sends(seconds, times)
    try:
        yield
    finally:
        cluster().heal()


@contextmanager
def held(times=1):
    """The next sends are not answered before `let_go`."""
    cluster().hold_sends(times)
    try:
        yield
    finally:
        cluster().heal()


# --- as the standard library has them ------------------------------------------------------------------


def wait_and_as_completed():
    with open_producer() as producer:
        futures = [producer.send_soon(one()) for _ in range(50)]
        assert all(isinstance(future, Future) for future in futures)
        done, left = wait(futures, 10)
        assert len(done) == 50, left
        assert not left
        assert {future.result(0).status for future in done} == {SendStatus.SEND_OK}
        futures = [producer.send_soon(one()) for _ in range(50)]
        assert {future.result().status for future in as_completed(futures, 10)} == {SendStatus.SEND_OK}
        with delayed(0.5):
            slow = producer.send_soon(one())
            quick = producer.send_soon(one())
            done, left = wait([slow, quick], 10, FIRST_COMPLETED)
            assert done == {quick}
            assert left == {slow}
            wait([slow], 10)


def wait_from_many_threads():
    with open_producer() as producer, delayed(0.3):
        future, results = producer.send_soon(one()), []
        threads = [threading.Thread(target=lambda: results.append(future.result(10))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(results) == 20
        assert len({id(result) for result in results}) == 1


def wrapped_for_asyncio():
    async def main(producer):
        results = await asyncio.gather(*(asyncio.wrap_future(producer.send_soon(one())) for _ in range(100)))
        assert {result.status for result in results} == {SendStatus.SEND_OK}
        with refusing():
            wrapped = asyncio.wrap_future(producer.send_soon(one()))
            try:
                await wrapped
            except RocketMQError:
                pass
            else:
                raise AssertionError("the error did not come through")

    with open_producer() as producer:
        asyncio.run(main(producer))


def result_with_a_timeout():
    with open_producer(send_timeout=10) as producer, held():
        future = producer.send_soon(one())
        assert future.running()
        assert not future.done()
        began = time.monotonic()
        for ask in (future.result, future.exception):
            try:
                ask(0.1)
            except TimeoutError:
                pass
            else:
                raise AssertionError("it did not time out")
        assert time.monotonic() - began < 4  # to wait for the end of the send would take ten seconds
        cluster().let_go()
        assert future.result(10).status is SendStatus.SEND_OK
        assert future.exception() is None
        assert future.done()
        assert not future.running()


def cancel_is_refused():
    """A message on its way cannot be recalled."""
    with open_producer() as producer:
        with delayed(0.3):
            future = producer.send_soon(one())
            assert future.cancel() is False
            assert not future.cancelled()
            assert future.result(10).status is SendStatus.SEND_OK
        assert future.cancel() is False
        wrapped_cancelled(producer)


def wrapped_cancelled(producer):
    """Giving up waiting in asyncio hurts neither the send nor the producer."""

    async def main():
        with delayed(0.3):
            future = producer.send_soon(one())
            wrapped = asyncio.wrap_future(future)
            wrapped.cancel()
            with suppress(asyncio.CancelledError):
                await wrapped
            return await asyncio.to_thread(future.result, 10)

    assert asyncio.run(main()).status is SendStatus.SEND_OK


def callbacks():
    """Callbacks run once each, in order, with the future; at once if it is done; an exception stops no other."""
    mine = threading.get_ident()
    with open_producer() as producer, delayed(0.2):
        future, called, over = producer.send_soon(one()), [], threading.Event()

        def broken(done):
            called.append(("broken", done, threading.get_ident()))
            raise ValueError("of the user")

        future.add_done_callback(lambda done: called.append(("first", done, threading.get_ident())))
        future.add_done_callback(broken)
        future.add_done_callback(lambda done: called.append(("last", done, threading.get_ident())))
        future.add_done_callback(lambda done: over.set())
        assert over.wait(10)
        assert [name for name, _, _ in called] == ["first", "broken", "last"]
        assert {done for _, done, _ in called} == {future}
        assert mine not in {thread for _, _, thread in called}
        future.add_done_callback(lambda done: called.append(("late", done, threading.get_ident())))
        assert called[3:] == [("late", future, mine)]


def callbacks_of_failed_ones():
    with open_producer() as producer, refusing():
        seen, over = [], threading.Event()

        def look(done):
            seen.append(type(done.exception()))
            if len(seen) == 30:
                over.set()

        for _ in range(30):
            producer.send_soon(one()).add_done_callback(look)
        assert over.wait(10), seen
    assert all(issubclass(kind, RocketMQError) for kind in seen)


def closing_waits_for_callbacks():
    called = []

    def slowly(done):
        time.sleep(0.002)
        called.append(done.result().status)

    with open_producer() as producer:
        for _ in range(100):
            producer.send_soon(one()).add_done_callback(slowly)
    assert called == [SendStatus.SEND_OK] * 100, f"{len(called)} of 100 callbacks were called when it was closed"


# --- what they leave behind ----------------------------------------------------------------------------


def no_cycles():
    with open_producer() as producer, refusing(), garbage() as found:
        kinds = ("SendFuture", "Soon", "MessageIllegalError", "SendError", "SendAttempt", "Message")
        _fail(producer, 5)
        before = {kind: found(kind) for kind in kinds}
        _fail(producer, 50)
        left = {kind: found(kind) - before[kind] for kind in kinds}
        assert not any(left.values()), f"taken apart by the garbage collector alone: {left}"


def _fail(producer, times):
    for _ in range(times):
        with suppress(RocketMQError):
            producer.send_soon(one()).result(10)
        with suppress(RocketMQError):
            raise producer.send_soon(one()).exception(10)


# --- failures that nobody looks at ---------------------------------------------------------------------


class Lines(logging.Handler):
    """The warnings of the library with their times."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append((time.monotonic(), record.getMessage()))

    def counted(self):
        """The numbers of the lines that count failures nobody looked at."""
        found = [re.search(r"\b(\d+) .*(nobody|looked)", text) for _, text in self.lines]
        return [int(match[1]) for match in found if match]


@contextmanager
def listening():
    lines, logger = Lines(), logging.getLogger("rocketpy")
    logger.addHandler(lines)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)


def nobody_looks():
    """All failures that nobody looked at are counted, in at most one line per second."""
    with listening() as lines:
        began = time.monotonic()
        with open_producer() as producer, refusing():
            for _ in range(10):
                for _ in range(30):
                    producer.send_soon(one())
                _look(producer)
                time.sleep(0.2)
        gc.collect()
        until = time.monotonic() + 3
        while sum(lines.counted()) < 300 and time.monotonic() < until:
            time.sleep(0.05)
        took = time.monotonic() - began
    assert sum(lines.counted()) == 300, f"{lines.counted()} of 300 are counted; all lines: {lines.lines[:5]}"
    assert len(lines.counted()) <= took + 2, f"{len(lines.counted())} lines in {took:.1f} s"
    shapes = Counter(re.sub(r"\d+", "N", text) for _, text in lines.lines)
    assert max(shapes.values()) <= took + 2, shapes.most_common(2)


def _look(producer):
    """Every way to look at a failure."""
    with suppress(RocketMQError):
        producer.send_soon(one()).result(10)
    producer.send_soon(one()).exception(10)
    producer.send_soon(one()).add_done_callback(lambda done: done.exception())


def nobody_looks_before_the_end():
    """A close counts what is left over, without waiting for the second to be full."""
    with listening() as lines:
        with open_producer() as producer, refusing():
            for _ in range(20):
                producer.send_soon(one())
            producer.send_soon(one()).exception(10)  # the others have been refused by then
        gc.collect()
        until = time.monotonic() + 2.5
        while sum(lines.counted()) < 20 and time.monotonic() < until:
            time.sleep(0.05)
    assert sum(lines.counted()) == 20, lines.lines


def kept_and_looked_at_later():
    """As long as somebody holds a future, it may still be looked at: it is not counted."""
    with listening() as lines:
        with open_producer() as producer, refusing():
            futures = [producer.send_soon(one()) for _ in range(20)]
            wait(futures, 10)
            time.sleep(1.3)
            assert all(isinstance(future.exception(), RocketMQError) for future in futures)
        del futures
        gc.collect()
        time.sleep(1.2)
    assert not lines.counted(), lines.lines
