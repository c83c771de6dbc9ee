"""How late timed messages come: single ones that are due after a second, and very many that are due at one moment."""

from __future__ import annotations

import selectors
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from benchmarks.frames import GET_MAX_OFFSET, Wire, frame, pull_frame, send_frame, split
from benchmarks.latencies import percentile
from benchmarks.measure import Row
from benchmarks.processes import cpu_seconds
from benchmarks.raw import count_good
from benchmarks.records import Record, decode
from benchmarks.task import BODY, WINDOW, Outcome
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.measure import Ground

TIMER: Final = Row("timer-late", "timers of 1 s: how late 99 of 100 come", "ms")
LEVEL: Final = Row("level-late", "delay level 1 (1 s): how late 99 of 100 come", "ms")
MANY: Final = Row("timers-at-once", "100,000 timers due at one moment: the last", "ms")
SINGLES: Final = 200
APART: Final = 0.01
"""Seconds from one of them to the next."""
ALL: Final = 100_000
RATE: Final = 6_000
"""They are sent at this rate or faster: the moment is chosen by it."""
LEAD: Final = 3.0
"""Seconds from the last of the sends, so reckoned, to that moment."""
WITHIN: Final = 60.0
QUEUES: Final = 4


# --- single ones


def late(ground: Ground) -> Mapping[str, Outcome]:
    """Timers of a second, then delay level 1: from the send to the answer of a held pull, less the second."""
    return {
        TIMER.name: _late(ground, "BenchTimer", {"TIMER_DELAY_MS": "1000"}),
        LEVEL.name: _late(ground, "BenchLevel", {"DELAY": "1"}),
    }


def _late(ground: Ground, topic: str, properties: Mapping[str, str]) -> Outcome:
    count = min(SINGLES, ground.size.budget.messages)
    ground.site.create_topic(topic, 1)
    sent: list[float] = []
    over: dict[int, float] = {}
    with ExitStack() as stack:
        sender, puller = (stack.enter_context(Wire(ground.site.broker)) for _ in range(2))
        selector = stack.enter_context(selectors.DefaultSelector())
        for wire in (sender, puller):
            selector.register(wire.socket, selectors.EVENT_READ, wire)
        group = f"bench_timer_{ground.run}"
        puller.socket.sendall(pull_frame(group, topic, 0, 0, wait_ms=15_000))
        deadline = time.monotonic() + WITHIN
        begin = time.monotonic()
        while len(over) < count:
            now = time.monotonic()
            if now > deadline:
                raise BenchmarkError(f"{count - len(over)} of {count} timed messages are missing in {topic}")
            if len(sent) < count and now >= begin + len(sent) * APART:
                body = BODY + len(sent).to_bytes(4)
                sent.append(time.monotonic())
                sender.socket.sendall(send_frame(topic, 0, body, properties=properties))
            pause = begin + len(sent) * APART - time.monotonic() if len(sent) < count else 1.0
            for key, _ in selector.select(max(0.0, pause)):
                answers = key.data.read()
                if key.data is sender:
                    count_good(answers)
                    continue
                came = time.monotonic()
                following, records = _pulled(answers[0])
                for record in records:
                    number = int.from_bytes(record[1][-4:])
                    over[number] = 1e3 * (came - sent[number] - 1)
                puller.socket.sendall(pull_frame(group, topic, 0, following, wait_ms=15_000))
    ordered = sorted(over.values())
    notes = {"first_ms": ordered[0], "p50_ms": percentile(ordered, 0.5), "last_ms": ordered[-1]}
    return Outcome(percentile(ordered, 0.99), count, notes=notes)


# --- many at once


def many(ground: Ground) -> Mapping[str, Outcome]:
    """Send them all, wait until they are there, and look when the last one was stored.

    Raises:
        BenchmarkError: sending took too long, or they do not come.
    """
    topic, count = f"BenchTimers_{ground.run}", min(ALL, ground.size.budget.messages)
    ground.site.create_topic(topic, QUEUES)
    due = int(1e3 * (time.time() + count / RATE + LEAD))
    with Wire(ground.site.broker) as wire:
        _send_all(wire, topic, count, due)
        if time.time() * 1e3 > due:
            raise BenchmarkError(f"sending {count} timers took longer than {count / RATE + LEAD:.0f} s")
        time.sleep(due / 1e3 - time.time())
        before = cpu_seconds(ground.site.broker_pid)
        _wait_for(wire, topic, count)
        after = cpu_seconds(ground.site.broker_pid)
        stored = [_stored(wire, ground.run, topic, queue) for queue in range(QUEUES)]
    first, last = min(first for first, _ in stored) - due, max(last for _, last in stored) - due
    server_cpu = None if before is None or after is None else (after - before) * 100_000 / count
    return {MANY.name: Outcome(last, count, server_cpu=server_cpu, notes={"first_ms": first})}


def _send_all(wire: Wire, topic: str, count: int, due: int) -> None:
    properties = {"TIMER_DELIVER_MS": str(due)}
    frames = [send_frame(topic, queue, BODY, properties=properties) for queue in range(QUEUES)]
    sent = answered = 0
    while answered < count:
        more = min(WINDOW - (sent - answered), count - sent)
        wire.socket.sendall(b"".join(frames[number % QUEUES] for number in range(sent, sent + more)))
        sent += more
        answered += count_good(wire.read())


def _wait_for(wire: Wire, topic: str, count: int) -> None:
    deadline = time.monotonic() + WITHIN
    while (there := sum(_end(wire, topic, queue) for queue in range(QUEUES))) < count:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{count - there} of {count} timers are missing {WITHIN:g} s after they were due")
        time.sleep(0.05)


def _end(wire: Wire, topic: str, queue: int) -> int:
    return int(wire.ask(frame(GET_MAX_OFFSET, {"topic": topic, "queueId": queue}))[0]["extFields"]["offset"])


def _stored(wire: Wire, run: str, topic: str, queue: int) -> tuple[int, int]:
    """When the first and the last message of a queue were stored."""
    ends = 0, _end(wire, topic, queue) - 1
    first, last = (wire.ask(pull_frame(f"bench_timers_{run}", topic, queue, offset))[1] for offset in ends)
    return decode(first)[0][5], decode(last)[-1][5]


def _pulled(answer: bytes) -> tuple[int, list[Record]]:
    """Where to go on, and the messages."""
    header, body = split(answer)
    return int(header["extFields"]["nextBeginOffset"]), decode(body) if header["code"] == 0 else []
