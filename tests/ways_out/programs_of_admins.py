"""Cases: whole programs with an Admin, alone or handed out, that end, are told to end, fork, or forget it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any, Self

from rocketpy.errors import RocketMQError
from tests.ways_out.beside import Beside
from tests.ways_out.ground import ask
from tests.ways_out.programs import LONG, live
from tests.ways_out.programs_of_loops import Program, run_program
from tests.ways_out.scene import SOON, Scene
from tests.ways_out.zygote import say

__all__ = ["OWNERS", "run", "run_in_loop"]

DOING: dict[str, Callable[[Any, Scene], Any]] = {
    "waiting": lambda admin, scene: admin.brokers.runtime("broker-a"),
    "commanding": lambda admin, scene: admin.groups.create(scene.place.group, exist_ok=True),
}
"""What it does when the program ends: it waits for one broker that hangs, or for that one of all brokers."""


def run(owner: str, doing: str, way: str, place: dict[str, str]) -> None:
    """A program of blocking code; it returns, or ends as a program does."""
    scene = Scene("blocking", place)
    thing = _Administering(scene, owner)

    def work() -> None:
        thing.use()
        if doing == "idle":
            return
        scene.place.proxy("hold")
        known = scene.place.proxy("requests")
        # The end of the interpreter does not wait for it; elsewhere it has something to report.
        threading.Thread(target=make, daemon=way == "end").start()
        while scene.place.proxy("requests") <= known or not _done_elsewhere(scene, doing):
            time.sleep(SOON)

    def make() -> None:
        try:
            found = DOING[doing](thing.admin, scene)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome
            _say_outcome(error)
        else:
            _say_outcome(found)

    def wait() -> None:
        """The main thread waits in the same call; it may not hear that it was closed before it hears of the signal."""
        while doing != "idle":
            DOING[doing](thing.admin, scene)
        time.sleep(LONG)

    live(scene, way, thing, work, wait)


def run_in_loop(surface: str, owner: str, doing: str, way: str, place: dict[str, str]) -> None:
    """A program on trio or asyncio; likewise."""
    program = _Program(Scene(surface, place), way)
    run_program(program, lambda: program.administering(owner, doing))


def _say_outcome(outcome: object) -> None:
    """Report what became of the call."""
    say(outcome=repr(outcome), told=isinstance(outcome, RocketMQError), done=list(getattr(outcome, "done", ())))


def _done_elsewhere(scene: Scene, doing: str) -> bool:
    """Whether the broker that does not hang has done what all of them are to do."""
    place = scene.place
    return doing != "commanding" or bool(ask(place.control, "brokers with group", place.group))


class _Program(Program):
    """A program with an Admin; a task of its own makes the call."""

    async def administering(self, owner: str, doing: str) -> None:
        thing = _Administering(self.scene, owner)

        async def work() -> None:
            await thing.use()
            if doing != "idle":
                self.scene.place.proxy("hold")
                await beside.begin(lambda: DOING[doing](thing.admin, self.scene))
                await self.scene.until(lambda: _done_elsewhere(self.scene, doing), "the other broker has done it")

        async with Beside(self.scene) as beside:
            await self.live(thing, work)
            if doing != "idle" and self.way != "end":
                await beside.check_ended()
                _say_outcome(beside.outcome)
        say(wrong=self.scene.wrong)


class _Administering:
    """An Admin, and the producer or consumer that has handed it out, which are opened and closed as one.

    Args:
        scene: the case.
        owner: what hands it out, or "alone".
    """

    def __init__(self, scene: Scene, owner: str) -> None:
        self._owner, self._only_owner = OWNERS[owner]
        self._opened = self._owner(scene)
        self._scene = scene
        self._stack: Any = None
        self.admin = scene.admin(request_timeout=LONG) if self._opened is None else self._opened.admin()

    @property
    def _all(self) -> list[Any]:
        return [each for each in (self._opened, self.admin) if each is not None]

    def use(self) -> Any:
        """A call of it."""
        return self.admin.brokers.runtime("broker-a")

    # --- on blocking code ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open all of it."""
        for each in self._all:
            each.start()

    def close(self) -> None:
        """Close what the program closes."""
        for each in self._to_close():
            each.close()

    def _to_close(self) -> list[Any]:
        return [self._opened] if self._only_owner else self._all[::-1]

    def __enter__(self) -> Self:
        self.start()
        self._stack = ExitStack()
        for each in reversed(self._to_close()):
            self._stack.push(each)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        return self._stack.__exit__(kind, error, traceback)

    # --- on trio and asyncio ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        for each in self._all:
            await each.__aenter__()
        for each in reversed(self._to_close()):
            self._stack.push_async_exit(each)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        return await self._stack.__aexit__(kind, error, traceback)


OWNERS: dict[str, tuple[Callable[[Scene], Any], bool]] = {
    "alone": (lambda scene: None, False),
    "of a producer": (lambda scene: scene.producer(request_timeout=LONG), False),
    "of a consumer": (lambda scene: scene.lite_consumer(request_timeout=LONG), False),
    "of a producer, left open": (lambda scene: scene.producer(request_timeout=LONG), True),
}
"""What hands the Admin out, and whether the program closes only that."""
