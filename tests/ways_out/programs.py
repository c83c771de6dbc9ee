"""Cases: whole programs of blocking code that end, are told to end, fork, or forget what they have started."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import rocketpy.sync
from rocketpy import Message, MessageModel, MessageQueue
from rocketpy.errors import RocketMQError
from tests.ways_out.forked import forked, socket_names
from tests.ways_out.ground import ask
from tests.ways_out.scene import EXIT_TIMEOUT, SLACK, SLOWNESS, SOON, Scene
from tests.ways_out.zygote import say

COUNT = 12
BURST = 500
NEIGHBOURS = 20
LINKS = 60
FIRST_OF_NEIGHBOUR = 1000
LONG = 30.0
SHORT = 1.0
LISTENER_TAKES = 0.3
FORGOTTEN_FOR = 2.0 * SLOWNESS
"""Seconds, at most, for what closes it in the background."""
STATUS = 7


def run(state: str, way: str, healed: bool, place: dict[str, str]) -> None:
    """The case; it returns, or ends as a program does."""
    scene = Scene("blocking", place)
    STATES[state](scene, way, healed)


def timing(way: str, healed: bool) -> dict[str, float]:
    """Of a producer whose broker answers again in a moment, or never."""
    if healed:
        return {"send_timeout": LONG, "exit_timeout": SLACK}
    # What ends without an exception waits for the sends themselves.
    waits_for_sends = way in ("SIGTERM closes", "forgotten", "fork")
    return {"send_timeout": SHORT if waits_for_sends else LONG, "exit_timeout": EXIT_TIMEOUT}


def in_callbacks(place: dict[str, str]) -> None:
    """Each done-callback sends the next message, and the program ends at once."""
    scene = Scene("blocking", place)
    producer = scene.producer(send_timeout=LONG, exit_timeout=LONG)
    producer.start()
    producer.send(scene.message(0))

    def go_on(number: int) -> None:
        if number <= LINKS:
            producer.send_soon(scene.message(number)).add_done_callback(lambda future: go_on(number + 1))

    go_on(1)
    KEPT.append(producer)


def forgotten_at_once(linger: float | None, place: dict[str, str]) -> None:
    """Nothing refers to the producer or its futures any more at the end, and the first route is not known yet."""
    scene = Scene("blocking", place)
    producer = scene.producer(send_timeout=LONG, exit_timeout=LONG, linger=linger)
    producer.start()
    for number in range(BURST):
        producer.send_soon(scene.message(number))


def in_worker(healed: bool, method: str, place: dict[str, str]) -> None:
    """A process of multiprocessing sends, and returns."""
    worker = multiprocessing.get_context(method).Process(target=run, args=("sends in flight", "end", healed, place))
    worker.start()
    worker.join()
    say(worker_status=worker.exitcode)


# --- states ------------------------------------------------------------------------------------------------


def starting(scene: Scene, way: str, healed: bool) -> None:
    """The main thread starts it, or where the interpreter ends another one; its name server does not answer."""
    place = scene.place
    ask(place.control, "hold", place.name_server_proxy)
    consumer = scene.consumer(lambda message: None, namesrv=place.name_server_proxy, request_timeout=LONG)

    def when() -> bool:
        return bool(ask(place.control, "requests", place.name_server_proxy))

    _struck(way, consumer.start, consumer.close, when)


def closing(scene: Scene, way: str, healed: bool) -> None:
    """Likewise; nobody answers its goodbye."""
    place = scene.place
    producer = scene.producer()
    producer.start()
    producer.send(scene.message(0))
    place.proxy("hold")
    known = place.proxy("requests")

    def when() -> bool:
        return bool(place.proxy("requests") > known)

    _struck(way, producer.close, producer.close, when)


def idle(scene: Scene, way: str, healed: bool) -> None:
    producer = scene.producer()

    def work() -> None:
        producer.send(scene.message(0))
        say(accepted=[0])

    live(scene, way, producer, work, lambda: time.sleep(LONG))


def in_flight(scene: Scene, way: str, healed: bool) -> None:
    """Where signals strike the main thread waits in a send of its own."""
    place = scene.place
    producer = scene.producer(**timing(way, healed))
    futures = []

    def work() -> None:
        producer.send(scene.message(0))
        place.proxy("hold")
        known = place.proxy("sends")
        futures.extend(producer.send_soon(scene.message(number)) for number in range(1, COUNT + 1))
        say(accepted=list(range(COUNT + 1)))
        while place.proxy("sends") < known + COUNT:
            time.sleep(SOON)
        if healed:
            place.heal_soon()

    def wait() -> None:
        while True:
            with suppress(RocketMQError):
                producer.send(scene.message(COUNT + 1))

    try:
        live(scene, way, producer, work, wait)
    finally:
        if way != "end" and os.getpid() == scene.pid:  # where the interpreter ends by itself nobody looks
            say(unanswered=sum(not future.done() for future in futures))


def listening(scene: Scene, way: str, healed: bool, **settings: Any) -> None:
    begun, telling, finished = threading.Event(), threading.Lock(), []

    def listener(message: Any) -> None:
        begun.set()
        time.sleep(LISTENER_TAKES)
        with telling:
            finished.append(message)
            say(finished=len(finished))

    live(scene, way, scene.consumer(listener, **settings), lambda: begun.wait(10), lambda: time.sleep(LONG))


def polling(scene: Scene, way: str, healed: bool) -> None:
    """One message was handed out; where signals strike the main thread waits for another."""
    consumer = scene.lite_consumer()

    def work() -> None:
        say(finished=len(consumer.poll(1, timeout=10)))

    def wait() -> None:
        while True:
            consumer.poll(timeout=LONG)

    live(scene, way, consumer, work, wait)


def pulling(scene: Scene, way: str, healed: bool) -> None:
    """Where signals strike the main thread waits in a request that the broker holds."""
    consumer = scene.pull_consumer()
    queue = MessageQueue(scene.place.topic, "broker-a", 0)

    def wait() -> None:
        while True:
            consumer.pull_block_if_not_found(queue, 1)

    live(scene, way, consumer, lambda: consumer.pull(queue, 0), wait)


def closing_in_order(scene: Scene, way: str, healed: bool) -> None:
    """Nobody takes its commit, or unlocks its queues."""
    place = scene.place
    got: list[Any] = []
    consumer = scene.consumer(got.append, orderly=True)
    consumer.start()
    while not got:
        time.sleep(SOON)
    place.proxy("hold")
    known = place.proxy("requests")
    _struck(way, consumer.close, consumer.close, lambda: bool(place.proxy("requests") > known))


STATES: dict[str, Callable[[Scene, str, bool], None]] = {
    "starting": starting,
    "idle": idle,
    "sends in flight": in_flight,
    "listener running": listening,
    "listening in order": partial(listening, orderly=True),
    "listening to a broadcast": partial(listening, message_model=MessageModel.BROADCASTING),
    "polling": polling,
    "pulling": pulling,
    "closing": closing,
    "closing in order": closing_in_order,
}


# --- ways out of what is started ------------------------------------------------------------------------------


def live(scene: Scene, way: str, thing: Any, work: Callable[[], object], wait: Callable[[], object]) -> None:
    """Start it, do something with it, and end as the way says."""
    if way == "sys.exit":
        with thing:
            work()
            sys.exit(STATUS)
    elif way == "SIGTERM raises":
        with thing:
            work()
            _signal_soon(_raise)
            wait()
    elif way == "SIGTERM closes":
        thing.start()
        work()
        closed: list[bool] = []

        def close() -> None:
            thing.close()
            closed.append(True)
            say(closed=True)
            raise SystemExit(0)

        _signal_soon(close)
        wait()
    elif way == "fork":
        with thing:
            work()
            forked(scene, lambda: _in_child(scene, thing))
    elif way == "forgotten":
        thing.start()
        work()
        _forget(thing)
        del thing
        gc.collect()
        deadline = time.monotonic() + FORGOTTEN_FOR
        while scene.place.proxy("connections") and time.monotonic() < deadline:
            time.sleep(SOON)
    else:
        thing.start()
        work()
        neighbour = rocketpy.sync.Producer("neighbour", namesrv=scene.place.namesrv)
        neighbour.start()
        for number in range(NEIGHBOURS):
            body = f"{scene.place.group}/{FIRST_OF_NEIGHBOUR + number}".encode()
            neighbour.send_soon(Message(scene.place.topic, body))
        KEPT.extend([thing, neighbour])


KEPT: list[Any] = []
"""What outlives everything, until the interpreter ends."""


def _forget(thing: Any) -> None:
    """Nobody refers to it any more: those of the callers are the last ones, and they are taken away here."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        for cell in frame.f_locals.values():
            if hasattr(cell, "__closure__") and cell.__closure__:
                for each in cell.__closure__:
                    with suppress(ValueError):
                        if each.cell_contents is thing:
                            del each.cell_contents
        frame = frame.f_back


def _in_child(scene: Scene, thing: Any) -> dict[str, Any]:
    """What a child finds of what its parent had open, and whether it can have one of its own."""
    told = "nothing"
    try:
        if hasattr(thing, "send"):
            thing.send(scene.message(0))
        elif hasattr(thing, "use"):
            thing.use()
        elif hasattr(thing, "wait_assigned"):
            thing.wait_assigned(1)
        else:
            thing.fetch_message_queues(scene.place.topic)
    except RocketMQError as error:
        told = f"{type(error).__name__}: {error}"
    inherited = socket_names(scene.place)
    thing.close()
    with rocketpy.sync.Producer("child", namesrv=scene.place.namesrv) as producer:
        status = producer.send(Message("Innocent", b"child")).status.name
    return {"told": told, "inherited": inherited, "sent": status}


# --- ways out of something that waits ------------------------------------------------------------------------


def _struck(way: str, wait: Callable[[], object], close: Callable[[], object], when: Callable[[], bool]) -> None:
    if way in ("end", "sys.exit"):

        def wait_in_thread() -> None:
            with suppress(RocketMQError):  # it may well be told that it cannot go on
                wait()

        threading.Thread(target=wait_in_thread, daemon=True).start()
        while not when():
            time.sleep(SOON)
        if way == "sys.exit":
            sys.exit(STATUS)
        return

    def watch() -> None:
        while not when():
            time.sleep(SOON)
        os.kill(os.getpid(), signal.SIGTERM)

    def handle() -> None:
        began = time.monotonic()
        if way == "SIGTERM raises":
            raise SystemExit(STATUS)
        close()
        say(closed=True, closing_took=time.monotonic() - began)

    signal.signal(signal.SIGTERM, lambda number, frame: handle())
    threading.Thread(target=watch, daemon=True).start()
    try:
        wait()
    except RocketMQError as error:
        say(ended_by=repr(error))
    except SystemExit:
        close()
        raise
    close()


def _signal_soon(handle: Callable[[], object]) -> None:
    """Have a signal strike when the main thread waits."""
    signal.signal(signal.SIGTERM, lambda number, frame: handle())
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()


def _raise() -> None:
    raise SystemExit(STATUS)
