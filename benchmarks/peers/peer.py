"""The Python end of a driver: tasks to it, outcomes from it, and how one is started, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.processes import Child
from benchmarks.task import BATCH, BATCHES_IN_FLIGHT, BODY, Outcome, Task
from benchmarks.trouble import BenchmarkError

ANSWER_WITHIN = 60.0
READY_WITHIN = 30.0

Launch = Callable[..., Child]
"""Starts the driver's process: without arguments to serve tasks, with "start", name server and topic to send once."""


@dataclass(frozen=True)
class Peer:
    """A driver that is up."""

    name: str
    _child: Child
    _launch: Launch

    def measure(self, shape: str, task: Task) -> Outcome:
        """Let it work. One that says nothing in time is ended, so that nobody waits for it again.

        Raises:
            BenchmarkError: it could not.
        """
        return self._asked(self._child, told(shape, task))

    def measure_fresh(self, shape: str, task: Task, warm: int) -> Outcome:
        """Let a process of its own do the work, after so many sends that warm it up.

        Raises:
            BenchmarkError: it could not.
        """
        child = self._launch()
        try:
            _answer(child, READY_WITHIN)
            return self._asked(child, {**told(shape, task), "warm": min(warm, task.budget.messages)})
        finally:
            child.kill()

    def _asked(self, child: Child, work: Mapping[str, Any]) -> Outcome:
        child.tell(json.dumps(work))
        try:
            answer = _answer(child, ANSWER_WITHIN)
        except BenchmarkError:
            child.kill()
            raise
        return outcome(self.name, answer)

    def first_send(self, namesrv: str, topic: str) -> Outcome:
        """From the start of a process of its own to its first acknowledged send, in ms."""
        child = self._launch("start", namesrv, topic)
        try:
            _answer(child, READY_WITHIN)
            return Outcome(child.age() * 1e3, 1)
        finally:
            child.kill()


@dataclass(frozen=True)
class PeerMake:
    """A client of another make.

    Attributes:
        name: As rows begin.
        title: For readers, with its version.
        installed: Gives the means to start it for as long as the block runs.
        warm_turns: How often it does each of its works before anything is measured.
    """

    name: str
    title: str
    installed: Callable[[], AbstractContextManager[Launch]]
    warm_turns: int = 1

    @contextmanager
    def run(self) -> Iterator[Peer]:
        """Start the driver; it is killed at the end."""
        with self.installed() as launch:
            child = launch()
            try:
                _answer(child, READY_WITHIN)
                yield Peer(self.name, child, launch)
            finally:
                child.kill()


def told(shape: str, task: Task) -> dict[str, Any]:
    """A task as drivers read it."""
    return {
        "shape": shape,
        "namesrv": task.namesrv,
        "topic": task.topic,
        "filled_topic": task.filled_topic,
        "filled": min(task.filled, task.budget.messages),
        "queues": task.queues,
        "group": f"bench_{task.run}",
        "body": BODY.decode("ascii"),
        "batch": BATCH,
        "batches": BATCHES_IN_FLIGHT,
        "warm": task.warming.messages,
        "seconds": task.budget.seconds,
        "messages": task.budget.messages,
    }


def outcome(name: str, answer: Mapping[str, Any]) -> Outcome:
    """What a driver's answer says.

    Raises:
        BenchmarkError: that it failed.
    """
    if "error" in answer:
        raise BenchmarkError(f"the {name} driver failed: {answer['error']}")
    messages = int(answer["messages"])
    if "latency_ms" in answer:
        return Outcome(answer["latency_ms"], messages)
    notes = {key: float(answer[key]) for key in ("p50_us", "p99_us") if key in answer}
    rate, cpu = messages / answer["seconds"], answer["cpu"] * 100_000 / max(1, messages)
    return Outcome(rate, messages, cpu, notes=notes, sent=int(answer.get("sent", 0)))


def _answer(child: Child, within: float) -> dict[str, Any]:
    """The next line that is an answer: libraries print what they like in between."""
    while True:
        line = child.line(within)
        if line.startswith('{"'):
            answer: dict[str, Any] = json.loads(line)
            return answer
