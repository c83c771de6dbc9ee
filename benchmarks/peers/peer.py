"""The Python side of a driver: starts it, sends it tasks, and reads the results."""

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
"""Starts a driver's process: without arguments to serve tasks; with "start", name server and topic to send once."""


@dataclass(frozen=True)
class Peer:
    """A running driver."""

    name: str
    _child: Child
    _launch: Launch

    def measure(self, shape: str, task: Task) -> Outcome:
        """Let it do a task. If it does not answer in time, it is killed, so that no later task waits for it.

        Raises:
            BenchmarkError: it could not.
        """
        return self._asked(self._child, told(shape, task))

    def measure_fresh(self, shape: str, task: Task, warm: int) -> Outcome:
        """Let a new process do the work, after this many sends to warm it up.

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
        """Return the ms from the start of a new process to its first acknowledged send."""
        child = self._launch("start", namesrv, topic)
        try:
            _answer(child, READY_WITHIN)
            return Outcome(child.age() * 1e3, 1)
        finally:
            child.kill()


@dataclass(frozen=True)
class PeerMake:
    """Another client.

    Attributes:
        name: The prefix of its rows.
        title: Its name for readers, with the version.
        installed: A context manager that provides the means to start it during its block.
        warm_turns: How often it does each of its tasks before anything is measured.
    """

    name: str
    title: str
    installed: Callable[[], AbstractContextManager[Launch]]
    warm_turns: int = 1

    @contextmanager
    def run(self) -> Iterator[Peer]:
        """Start the driver, and kill it at the end."""
        with self.installed() as launch:
            child = launch()
            try:
                _answer(child, READY_WITHIN)
                yield Peer(self.name, child, launch)
            finally:
                child.kill()


def told(shape: str, task: Task) -> dict[str, Any]:
    """Return a task as drivers read it."""
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
    """Return the result in a driver's answer.

    Raises:
        BenchmarkError: the driver reports a failure.
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
    """Return the next line that is an answer; libraries may print other lines in between."""
    while True:
        line = child.line(within)
        if line.startswith('{"'):
            answer: dict[str, Any] = json.loads(line)
            return answer
