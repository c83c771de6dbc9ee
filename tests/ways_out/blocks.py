"""Cases: a block around a client is left, in every state that the client may be in, by every kind of exception."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
import trio

from rocketpy import MessageModel
from rocketpy.errors import RocketMQError
from tests.surfaces.surface import call
from tests.ways_out.beside import Beside
from tests.ways_out.ground import ask
from tests.ways_out.scene import (
    CLOSE_TIMEOUT,
    EXIT_TIMEOUT,
    HEALS_AFTER,
    SLACK,
    Entered,
    Innocent,
    Scene,
    Sends,
)
from tests.ways_out.struck import struck

COUNT = 5
LONG = 30.0
SHORT = 1.0
LISTENER_TAKES = 0.3

EXITS: dict[str, Callable[[], BaseException | None]] = {
    "left": lambda: None,
    "Exception": lambda: ValueError("mine"),
    "ExceptionGroup": lambda: ExceptionGroup("mine", [ValueError("one"), KeyError("two")]),
    "GeneratorExit": lambda: GeneratorExit("mine"),
    "CancelledError": lambda: asyncio.CancelledError("mine"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("mine"),
    "SystemExit": lambda: SystemExit(7),
    "skip": lambda: pytest.skip.Exception("mine"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("mine", [GeneratorExit("one"), ValueError("two")]),
    "generator closed": lambda: None,
}
"""How the block is left. A generator that is closed has GeneratorExit thrown into it by the interpreter."""


def leave(surface: str, state: str, way: str, healed: bool, place: dict[str, str]) -> None:
    """The case."""
    scene = Scene(surface, place)
    said: dict[str, Any] = {}

    async def main() -> None:
        said.update(await STATES[state](scene, way, healed))

    with Innocent(scene):
        try:
            scene.surface.run(main)
        except BaseException as error:  # noqa: BLE001 - the test is to hear of it, and of what comes after it
            scene.wrong.append(f"the case ended by {error!r}")
    scene.check_left()
    scene.report(**said)


async def left_by(scene: Scene, thing: Any, way: str, body: Callable[[Any], Any], within: float) -> None:
    """Enter, do something, leave as the way says; that takes so long at most, and the exception comes out unchanged."""
    error = EXITS[way]()
    began = 0.0
    try:
        if way == "generator closed":
            generator = _holding(thing)
            await body(await anext(generator))
            began = time.monotonic()
            await generator.aclose()
        else:
            async with Entered(thing) as entered:
                await body(entered)
                began = time.monotonic()
                if error is not None:
                    raise error
    except BaseException as caught:  # noqa: BLE001 - looked at below
        if caught is not error:
            scene.wrong.append(f"{caught!r} came out instead of {error!r}: {caught.__cause__!r}")
        scene.expect(caught is not error or not caught.__suppress_context__, "the exception has lost its context")
    else:
        scene.expect(error is None, f"{error!r} was swallowed")
    took = time.monotonic() - began
    scene.expect(took < within + SLACK, f"leaving took {took:.1f} s instead of {within:g}")


async def _holding(thing: Any) -> AsyncIterator[Any]:
    async with Entered(thing) as entered:
        yield entered


# --- states ------------------------------------------------------------------------------------------------


async def idle(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    async def body(producer: Any) -> None:
        await call(producer.send(scene.message(0)))

    await left_by(scene, scene.producer(), way, body, CLOSE_TIMEOUT)
    return {"acknowledged": [0], "accepted": [0]}


async def in_flight(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """The broker answers again in a moment, or never."""
    waits = HEALS_AFTER if healed else SHORT if way == "left" else EXIT_TIMEOUT
    timing = (
        {"send_timeout": LONG, "exit_timeout": SLACK}
        if healed
        else {"send_timeout": SHORT if way == "left" else LONG, "exit_timeout": EXIT_TIMEOUT}
    )
    producer = scene.producer(**timing)

    async with Sends(scene, COUNT) as sends:

        async def body(entered: Any) -> None:
            await scene.held(entered)
            await sends.begin(entered)
            if healed:
                scene.place.heal_soon()

        await left_by(scene, producer, way, body, waits + CLOSE_TIMEOUT)
        ended = await sends.outcomes()
    for number, outcome in ended.items():
        scene.expect(
            outcome is None or isinstance(outcome, RocketMQError), f"the outcome of send {number} is {outcome!r}"
        )
    if healed:
        waited_for = range(COUNT + 1) if way == "left" else sends.accepted
        failed = {number: repr(ended.get(number)) for number in waited_for if ended.get(number) is not None}
        scene.expect(not failed, f"closing has not waited for sends under way: {failed}")
    if not healed:
        stored = [number for number, outcome in ended.items() if outcome is None]
        scene.expect(not stored, f"sends {stored} were acknowledged by nobody")
    return {
        "acknowledged": [0, *(number for number, outcome in ended.items() if outcome is None)],
        "accepted": list(range(COUNT + 1)),
    }


async def listening(scene: Scene, way: str, healed: bool, **settings: Any) -> dict[str, Any]:
    def listener(message: Any) -> None:
        begun.append(message)
        time.sleep(LISTENER_TAKES)
        finished.append(message)

    begun: list[Any] = []
    finished: list[Any] = []
    return await _consuming(scene, way, listener, begun, finished, **settings)


async def listening_async(scene: Scene, way: str, healed: bool, **settings: Any) -> dict[str, Any]:
    async def listener(message: Any) -> None:
        begun.append(message)
        await (asyncio if scene.surface.name == "asyncio" else trio).sleep(LISTENER_TAKES)
        finished.append(message)

    begun: list[Any] = []
    finished: list[Any] = []
    return await _consuming(scene, way, listener, begun, finished, **settings)


async def _consuming(
    scene: Scene, way: str, listener: Any, begun: list[Any], finished: list[Any], **settings: Any
) -> dict[str, Any]:
    async def body(consumer: Any) -> None:
        await scene.until(lambda: begun, "the listener has begun")

    consumer = scene.consumer(listener, await_termination=SLACK, **settings)
    await left_by(scene, consumer, way, body, LISTENER_TAKES + CLOSE_TIMEOUT)
    done = len(finished)
    if way in ("left", "Exception", "ExceptionGroup"):
        scene.expect(done == 1, "closing has not waited for the listener")
    await scene.sleep(LISTENER_TAKES)
    return {"finished": done, "begun": len(begun)}


async def polling(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """What one poll has given, and the next has not been asked for."""

    async def body(consumer: Any) -> None:
        await call(consumer.wait_assigned(SLACK))
        got.extend(await call(consumer.poll(timeout=SLACK)))

    got: list[Any] = []
    await left_by(scene, scene.lite_consumer(), way, body, CLOSE_TIMEOUT)
    return {"accepted": [], "finished": 0, "begun": len(got)}


async def waiting_in_poll(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """Somebody else waits for more messages, of which there are none."""

    async def body(consumer: Any) -> None:
        await call(consumer.wait_assigned(SLACK))
        await call(consumer.poll(timeout=SLACK))
        await beside.begin(lambda: consumer.poll(timeout=LONG), asks=False)

    async with Beside(scene) as beside:
        await left_by(scene, scene.lite_consumer(), way, body, CLOSE_TIMEOUT)
        await beside.check_ended()
    return {"accepted": []}


async def waiting_in_pull(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """Likewise, in a request that the broker holds."""

    async def body(consumer: Any) -> None:
        queue, *_ = await call(consumer.fetch_message_queues(scene.place.topic))
        end = await call(consumer.end_offset(queue))
        await beside.begin(lambda: consumer.pull_block_if_not_found(queue, end))

    async with Beside(scene) as beside:
        await left_by(scene, scene.pull_consumer(), way, body, CLOSE_TIMEOUT)
        await beside.check_ended()
    return {"accepted": []}


async def administering(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """Somebody else waits for an answer of a broker that hangs."""

    async def body(admin: Any) -> None:
        await call(admin.brokers.runtime("broker-a"))
        scene.place.proxy("hold")
        await beside.begin(lambda: admin.brokers.runtime("broker-a"))

    async with Beside(scene) as beside:
        await left_by(scene, scene.admin(), way, body, CLOSE_TIMEOUT)
        await beside.check_ended()
    return {"accepted": []}


async def administering_for_another(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """Likewise, with an Admin that a producer has handed out: their client goes on, and so does the call."""

    async def body(admin: Any) -> None:
        await call(admin.brokers.runtime("broker-a"))
        scene.place.proxy("hold")
        await beside.begin(lambda: admin.brokers.runtime("broker-a"))

    async with Entered(scene.producer(request_timeout=LONG)) as producer, Beside(scene) as beside:
        await call(producer.send(scene.message(0)))
        await left_by(scene, producer.admin(), way, body, CLOSE_TIMEOUT)
        scene.place.proxy("go_on")
        await beside.check_ended()
        scene.expect(getattr(beside.outcome, "broker", "") == "broker-a", f"the call came to {beside.outcome!r}")
        await call(producer.send(scene.message(1)))
    return {"acknowledged": [0, 1], "accepted": [0, 1]}


async def interrupted(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """A command of an Admin is interrupted, which goes on to be used: what comes late is nobody's answer."""
    place = scene.place
    error = EXITS[way]()
    assert error is not None
    async with Entered(scene.admin(request_timeout=LONG)) as admin:
        found = await call(admin.brokers.runtime("broker-a"))
        place.proxy("hold")
        known = place.proxy("requests")

        async def command() -> None:
            await call(admin.groups.create(place.group, brokers=["broker-a"], exist_ok=True))
            scene.wrong.append("it was answered by nobody")

        await struck(scene, command, lambda: place.proxy("requests") > known, error, CLOSE_TIMEOUT)
        place.proxy("go_on")
        again = await call(admin.brokers.runtime("broker-a"))
        scene.expect((again.broker, again.version) == (found.broker, found.version), f"another answer: {again!r}")
        # The command was on its way already, before the two questions.
        groups = await call(admin.groups.list())
        scene.expect(place.group in groups, f"the command was not done: {groups}")
        scene.expect("open" in repr(admin), f"it is {admin!r}")
    return {"accepted": []}


async def starting(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """It waits for a name server that does not answer."""
    place = scene.place
    ask(place.control, "hold", place.name_server_proxy)
    consumer = scene.consumer(lambda message: None, namesrv=place.name_server_proxy, request_timeout=LONG)
    held = lambda: ask(place.control, "requests", place.name_server_proxy) > 0  # noqa: E731 - it is that short
    error = EXITS[way]()
    assert error is not None

    async def start() -> None:
        async with Entered(consumer):
            scene.wrong.append("it has started without a name server")

    await struck(scene, start, held, error, CLOSE_TIMEOUT)
    links = lambda: ask(place.control, "connections", place.name_server_proxy) == 0  # noqa: E731
    await scene.until(links, "the connection to the name server is closed", SLACK)
    scene.expect("open" not in repr(consumer), f"after the start it is {consumer!r}")
    return {}


async def closing(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """Nobody answers its goodbye."""
    place = scene.place
    producer = scene.producer()
    error = EXITS[way]()
    assert error is not None
    known: list[int] = []

    async def close() -> None:
        async with Entered(producer):
            await scene.held(producer)
            known.append(place.proxy("requests"))

    saying_goodbye = lambda: bool(known) and place.proxy("requests") > known[0]  # noqa: E731 - it is that short
    await struck(scene, close, saying_goodbye, error, CLOSE_TIMEOUT)
    scene.expect(not producer.is_open, "it is still open")
    return {"acknowledged": [0], "accepted": [0]}


async def closing_in_order(scene: Scene, way: str, healed: bool) -> dict[str, Any]:
    """Nobody takes its commit, or unlocks its queues."""
    place = scene.place
    got: list[Any] = []
    consumer = scene.consumer(got.append, orderly=True)
    error = EXITS[way]()
    assert error is not None
    known: list[int] = []

    async def close() -> None:
        async with Entered(consumer):
            await scene.until(lambda: got, "the message is consumed")
            place.proxy("hold")
            known.append(place.proxy("requests"))

    saying_goodbye = lambda: bool(known) and place.proxy("requests") > known[0]  # noqa: E731 - it is that short
    await struck(scene, close, saying_goodbye, error, 2 * CLOSE_TIMEOUT)
    scene.expect("open" not in repr(consumer), f"it is {consumer!r}")
    return {"accepted": []}


STATES = {
    "starting": starting,
    "idle": idle,
    "sends in flight": in_flight,
    "listener running": listening,
    "async listener running": listening_async,
    "listener running in order": partial(listening, orderly=True),
    "async listener running in order": partial(listening_async, orderly=True),
    "listener running of a broadcast": partial(listening, message_model=MessageModel.BROADCASTING),
    "polling": polling,
    "waiting in poll": waiting_in_poll,
    "waiting in pull": waiting_in_pull,
    "administering": administering,
    "administering for another": administering_for_another,
    "interrupted": interrupted,
    "closing": closing,
    "closing in order": closing_in_order,
}
