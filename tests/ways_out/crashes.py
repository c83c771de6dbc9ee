"""Cases: a background service meets a bug, once or each time; those who rely on it have to hear of that."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from importlib import import_module
from typing import Any

from rocketpy.errors import RocketMQError, ServiceCrashedError
from tests.surfaces.surface import call
from tests.ways_out.ground import ask
from tests.ways_out.scene import SLOWNESS, SOON, Entered, Innocent, Scene, Sends
from tests.ways_out.zygote import say

COUNT = 4
LONG = 30.0
RESTARTS_WITHIN = 8.0 * SLOWNESS
WATCHED = {True: 2.5, False: 0.2}
"""Seconds for which a service is watched that crashes each time, and one that crashes once."""
OF_CLIENTS = {
    "routes": ("rocketpy.client.routes.routing", "RouteTable", "clean_offline_brokers"),
    "heartbeats": ("rocketpy.client.heartbeat", "Heartbeats", "send_all"),
}
OF_CONSUMERS = {
    **OF_CLIENTS,
    "offsets": ("rocketpy.consumer.offsets.offset_store", "RemoteBrokerOffsetStore", "persist"),
    "rebalance": ("rocketpy.consumer.rebalancing.rebalance", "Rebalance", "look"),
    "listeners": ("rocketpy.consumer.calling.consume_concurrently", "ConsumeMessageConcurrentlyService", "collect"),
}
OFTEN = {"poll_name_server_interval": 0.05, "heartbeat_broker_interval": 0.05}
OFTEN_TOO = {"rebalance_interval": 0.05, "persist_consumer_offset_interval": 0.05}


class Bug:
    """In a method of a service: it raises from the moment when it is armed, once or each time."""

    def __init__(self, service: str, *, always: bool) -> None:
        module, name, method = OF_CONSUMERS[service]
        kind = getattr(import_module(module), name)
        right = getattr(kind, method)
        self.fired = 0
        self._left = 0
        self.always = always
        self._times = sys.maxsize if always else 1

        def wrong(*args: Any, **kwargs: Any) -> Any:
            if self._left:
                self._left -= 1
                self.fired += 1
                raise ZeroDivisionError("a planted bug")
            return right(*args, **kwargs)

        setattr(kind, method, wrong)

    def arm(self) -> None:
        """From now on."""
        self._left = self._times

    def disarm(self) -> None:
        """No more."""
        self._left = 0


def _log() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)


def producing(surface: str, service: str, always: bool, place: dict[str, str]) -> None:
    """Sends are under way when a service of their client crashes."""
    _log()
    scene = Scene(surface, place)
    bug = Bug(service, always=always)
    said: dict[str, Any] = {}
    # Its own services crash with those of the others: it is told apart by the log, and is none here.
    scene.surface.run(lambda: _sends(scene, bug, said))
    scene.check_left()
    scene.report(fired=bug.fired, **said)


async def _sends(scene: Scene, bug: Bug, said: dict[str, Any]) -> None:
    producer = scene.producer(send_timeout=LONG, **OFTEN)
    async with Sends(scene, COUNT) as sends:
        try:
            async with Entered(producer):
                await scene.held(producer)
                await sends.begin(producer)
                bug.arm()
                await scene.until(lambda: bug.fired, "the service has crashed")
                await scene.sleep(0.3)
                scene.place.proxy("go_on")
                await sends.outcomes()
                await scene.sleep(WATCHED[bug.always])
                bug.disarm()
                said["works"] = await _works(scene, producer)
        except ServiceCrashedError as error:
            said["ended"] = repr(error)
        ended = await sends.outcomes()
    said["outcomes"] = [repr(outcome) for outcome in ended.values()]
    said["stored"] = sum(outcome is None for outcome in ended.values())


async def _works(scene: Scene, producer: Any) -> bool:
    try:
        await call(producer.send(scene.message(COUNT + 1), timeout=4.0))
    except RocketMQError:
        return False
    return True


def consuming(surface: str, service: str, always: bool, place: dict[str, str]) -> None:
    """A program in `run_forever`; a message comes before the crash, and another one after it."""
    _log()
    scene = Scene(surface, place)
    bug = Bug(service, always=always)
    got: list[Any] = []
    said: dict[str, Any] = {}
    over = threading.Event()

    async def main() -> None:
        consumer = scene.consumer(got.append, **OFTEN, **OFTEN_TOO)
        try:
            await call(consumer.run_forever())
        except ServiceCrashedError as error:
            said["ended"] = repr(error)
        finally:
            over.set()

    thread = threading.Thread(target=_watch, args=(scene, bug, got, said, over))
    thread.start()
    scene.surface.run(main)
    thread.join()
    scene.check_left()
    scene.report(fired=bug.fired, **said)


def _watch(scene: Scene, bug: Bug, got: list[Any], said: dict[str, Any], over: threading.Event) -> None:
    """Beside it: arm the bug, send, and see what comes of it."""

    def until(condition: Any, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            time.sleep(SOON)
        return bool(condition())

    if not until(lambda: got, 10.0):
        scene.wrong.append("the first message was not consumed")
    bug.arm()
    if not until(lambda: bug.fired, 10.0):
        scene.wrong.append("the service has not crashed")
    time.sleep(0.3)
    ask(scene.place.control, "store", scene.place.topic)
    until(lambda: len(got) > 1 or over.is_set(), RESTARTS_WITHIN)
    said["works"] = len(got) > 1 and not over.is_set()
    said["heard"] = over.is_set()
    if not over.is_set():
        time.sleep(WATCHED[bug.always])
    bug.disarm()
    if not over.is_set():
        os.kill(os.getpid(), signal.SIGTERM)
    say(watched=True)


def neighbours(surface: str, service: str, place: dict[str, str]) -> None:
    """The service of one client crashes, and another client of the process goes on."""
    _log()
    scene = Scene(surface, place)
    bug = Bug(service, always=False)

    async def main() -> None:
        try:
            async with Entered(scene.producer(**OFTEN)) as producer:
                await call(producer.send(scene.message(0)))
                bug.arm()
                await scene.until(lambda: bug.fired, "the service has crashed")
                await scene.sleep(0.5)
        except ServiceCrashedError:
            pass

    with Innocent(scene):
        scene.surface.run(main)
    scene.check_left()
    scene.report(fired=bug.fired)
