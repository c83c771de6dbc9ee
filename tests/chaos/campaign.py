"""One run: servers, faults, houses and consumers; then it heals, ends, and is judged."""

from __future__ import annotations

import gc
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from rocketpy.portal import portal
from tests.chaos.book import ACKNOWLEDGED, FAILED, UNDER_WAY, Book
from tests.chaos.consuming import CLOSES_WITHIN as CONSUMERS_CLOSE_WITHIN
from tests.chaos.consuming import Consuming
from tests.chaos.houses import CLOSES_WITHIN, LANES_END_WITHIN, House
from tests.chaos.lanes import KINDS, TOPIC
from tests.chaos.plan import BROKERS, CUT, HOLD, KILL, REFUSE, STOP, Fault, plan
from tests.chaos.verdict import Stored, Verdict, judge
from tests.chaos.ways import GROUPS, ways
from tests.ways_out.ground import Ground

QUEUES = 4
HEALS_WITHIN = 20.0
DELIVERED_WITHIN = 40.0
RECOVERY = 1.0
"""Seconds for which everybody goes on when nothing goes wrong any more."""
DISTURBED = ("ResourceWarning", "never retrieved", "never awaited", "was destroyed")


@dataclass
class Outcome:
    """What a run showed."""

    book: Book
    verdict: Verdict
    faults: Counter[str] = field(default_factory=Counter)
    stored: int = 0
    seconds: float = 0.0


class Campaign:
    """One run.

    Args:
        seconds: for how long things go wrong.
        seed: what goes wrong, and when.
        say: told of each second.
    """

    def __init__(self, seconds: float, seed: int, say: Callable[[str], object]) -> None:
        self._seconds = seconds
        self._seed = seed
        self._say = say
        self._book = Book()
        self._faults: Counter[str] = Counter()
        self._ways = ways(seed)
        self._now: dict[int, str] = {}
        self._starting = threading.Lock()

    def run(self) -> Outcome:
        """Run it all."""
        began = time.monotonic()
        with (
            listening_to_what_nobody_hears(self._book),
            tempfile.TemporaryDirectory() as self._folder,
            Ground(brokers=BROKERS) as self._ground,
        ):
            home = portal()
            tasks_before = home.call(_tasks)
            self._proxies = [self._ground.proxy(self._ground.broker(number)) for number in range(BROKERS)]
            self._ground.run(self._ground.cluster.create_topic, TOPIC, queues=QUEUES)
            self._run()
            gc.collect()
            left = {"thread left": self._threads_left(), "task left": _more(home.call(_tasks), tasks_before)}
            stored = [
                Stored(message.body.decode(), (TOPIC, message.broker_name, message.queue_id), message.queue_offset)
                for message in self._ground.call(self._ground.cluster.messages, TOPIC)
            ]
        verdict = judge(self._book, stored, self._ways, left)
        return Outcome(self._book, verdict, self._faults, len(stored), time.monotonic() - began)

    def _settings(self) -> dict[str, Any]:
        addresses = {self._ground.broker(number): proxy.address for number, proxy in enumerate(self._proxies)}
        return {"namesrv": self._ground.namesrv, "address_map": addresses, "poll_name_server_interval": 2.0}

    def _run(self) -> None:
        stop_sending, stop_consuming = threading.Event(), threading.Event()
        houses = [House(self._book, name, self._settings(), self._seed, stop_sending) for name in KINDS]
        folder = Path(self._folder)
        consumers = [
            Consuming(self._book, name, self._ways[group], self._settings(), folder, stop_consuming)
            for name, group in GROUPS.items()
        ]
        for thread in (*consumers, *houses):
            thread.start()
        self._disturb(plan(self._seconds, self._seed))
        self._heal()
        stop_sending.set()
        self._join(houses, CLOSES_WITHIN + LANES_END_WITHIN)
        self._wait_delivered()
        stop_consuming.set()
        self._join(consumers, CONSUMERS_CLOSE_WITHIN)

    # --- faults -----------------------------------------------------------------------------------------------

    def _disturb(self, faults: list[Fault]) -> None:
        began = time.monotonic()
        threads = [
            threading.Thread(target=self._carry_out, args=([each for each in faults if each.broker == number], began))
            for number in range(BROKERS)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or time.monotonic() < began + self._seconds:
            time.sleep(1.0)
            self._ground.check()
            self._say(self._line(time.monotonic() - began))

    def _carry_out(self, faults: list[Fault], began: float) -> None:
        """The faults of one broker, one after the other."""
        for fault in faults:
            time.sleep(max(0.0, began + fault.at - time.monotonic()))
            self._now[fault.broker] = fault.what
            try:
                self._one(fault)
            except Exception as error:  # noqa: BLE001 - the run is to go on, and to say so
                self._book.note_strange(f"{fault}: {error!r}")
            self._now.pop(fault.broker)
            self._faults[fault.what] += 1

    def _one(self, fault: Fault) -> None:
        ground, proxy = self._ground, self._proxies[fault.broker]
        if fault.what in (KILL, STOP):
            end = ground.cluster.kill_broker if fault.what == KILL else ground.cluster.stop_broker
            with self._starting:  # a start waits until all brokers that run are registered
                ground.run(end, fault.broker)
            time.sleep(fault.lasts)
            with self._starting:
                name = ground.cluster.brokers[fault.broker].config.broker_name
                self._book.restarts.append((time.monotonic(), name))
                ground.run(ground.cluster.start_broker, fault.broker)
            return
        ground.call({CUT: proxy.cut, HOLD: proxy.hold, REFUSE: proxy.refuse}[fault.what])
        time.sleep(fault.lasts)
        ground.call(proxy.go_on)

    def _line(self, seconds: float) -> str:
        book = self._book
        delivered = min(len(book.delivered[group]) for group in GROUPS.values())
        now = ", ".join(f"broker {number}: {what}" for number, what in sorted(self._now.items()))
        return (
            f"{seconds:4.0f} s  acknowledged {book.count(ACKNOWLEDGED):6}  failed {book.count(FAILED):5}  "
            f"under way {book.count(UNDER_WAY):4}  delivered to all {delivered:6}  {now}"
        )

    # --- the end ------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        """When nothing goes wrong any more every surface has to be acknowledged again."""
        began = time.monotonic()
        while any(self._book.last_ack.get(name, 0.0) < began for name in KINDS):
            if time.monotonic() > began + HEALS_WITHIN:
                for name in KINDS:
                    if self._book.last_ack.get(name, 0.0) < began:
                        self._book.late.append(f"{name}: no acknowledgement in {HEALS_WITHIN:g} s without faults")
                return
            time.sleep(0.05)
        time.sleep(RECOVERY)

    def _wait_delivered(self) -> None:
        acknowledged = self._book.acknowledged()
        deadline = time.monotonic() + DELIVERED_WITHIN
        while time.monotonic() < deadline:
            if all(acknowledged <= self._book.delivered[group] for group in GROUPS.values()):
                return
            time.sleep(0.1)

    def _join(self, threads: list[Any], within: float) -> None:
        deadline = time.monotonic() + within
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                frame = sys._current_frames().get(thread.ident)
                stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
                self._book.late.append(f"{thread.name} does not end:\n{stack}")

    def _threads_left(self) -> list[str]:
        """Trio keeps idle threads for a while; all others have to be gone."""
        allowed = ("rocketpy-portal", "ground", "Trio thread")
        deadline = time.monotonic() + 5.0
        while True:
            names = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
            left = [name for name in names if not name.startswith(allowed)]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)


async def _tasks() -> list[str]:
    """The names of all tasks of the portal, but for this one."""
    found = []
    root = trio.lowlevel.current_root_task()
    tasks = [root] if root is not None else []
    while tasks:
        task = tasks.pop()
        if task is not trio.lowlevel.current_task():
            found.append(task.name)
        for nursery in task.child_nurseries:
            tasks += nursery.child_tasks
    return found


def _more(now: list[str], before: list[str]) -> list[str]:
    return sorted((Counter(now) - Counter(before)).elements())


class listening_to_what_nobody_hears:
    """For a block: warnings, errors of `__del__` and errors of threads go into the book."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def __enter__(self) -> None:
        self._before = sys.unraisablehook, threading.excepthook, warnings.showwarning
        self._catching = warnings.catch_warnings()
        self._catching.__enter__()
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *rest, **more: self._book.note_strange(
            f"{category.__name__}: {message}"
        )
        sys.unraisablehook = lambda args: self._book.note_strange(f"unraisable: {args.exc_value!r} in {args.object!r}")
        threading.excepthook = lambda args: self._book.note_strange(
            f"the thread {args.thread and args.thread.name} has ended by {args.exc_value!r}"
        )

    def __exit__(self, *error: object) -> None:
        gc.collect()
        self._catching.__exit__(None, None, None)
        sys.unraisablehook, threading.excepthook, warnings.showwarning = self._before
