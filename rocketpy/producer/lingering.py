"""Sends of trio tasks whose messages linger to be sent in batches: each task parks until its batch has its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import TooManyRequestsError
from rocketpy.producer.choosing import Fixed

if TYPE_CHECKING:
    from rocketpy.client.sends.sending import Choice
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.accumulator import Accumulator
    from rocketpy.producer.items import Head, Outcome
    from rocketpy.producer.outside import Outside
    from rocketpy.results import SendResult

__all__ = ["TaskSends", "no_room"]


class _Sender:
    """A task that waits for the outcome of its message.

    Attributes:
        is_gone: whether it was cancelled.
        outcome: the outcome of the message.
    """

    __slots__ = ("_task", "is_gone", "outcome")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self.is_gone = False
        self.outcome: Outcome | None = None

    def hear(self, outcome: Outcome) -> None:
        """Take the outcome, and wake the task."""
        self.outcome = outcome
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    @staticmethod
    def hear_all(sinks: Sequence[_Sender], results: Sequence[SendResult]) -> None:
        """Have each take its result, and wake all tasks."""
        reschedule = trio.lowlevel.reschedule
        for sink, result in zip(sinks, results, strict=True):
            sink.outcome = result
            task, sink._task = sink._task, None
            if task is not None:
                reschedule(task)

    def abort(self, _: object) -> trio.lowlevel.Abort:
        """The task is cancelled: it waits no longer."""
        self._task, self.is_gone = None, True
        return trio.lowlevel.Abort.SUCCEEDED


class TaskSends:
    """The sends of one trio producer whose messages linger.

    Args:
        outside: The producer.
        accumulator: Forms batches.
    """

    def __init__(self, outside: Outside, accumulator: Accumulator) -> None:
        self._outside = outside
        self._accumulator = accumulator
        self._most = outside.core.config.total_batch_max_bytes
        self._taken = 0
        self._eased = trio.Event()

    @trio.lowlevel.enable_ki_protection  # or Ctrl-C may leave a sender that wakes the task from what it does next
    async def send(self, message: Message, head: Head, choice: Choice | None, seconds: float) -> SendResult:
        """Send a message and wait for the answer.

        Raises:
            TooManyRequestsError: too many bytes were waiting, for the whole time.
            RocketMQError: it was not acknowledged.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        core = self._outside.core
        deadline = core.clock() + seconds
        tries = 1 + core.config.retry_times_when_send_failed
        sender = _Sender()
        queue = choice.queue if isinstance(choice, Fixed) else None
        if choice is not None and queue is None:
            queue = await self._chosen(choice, message.topic, seconds)
        size = len(message.body)
        while self._taken and self._taken + size > self._most:
            await self._wait_room(message.topic, deadline, seconds)
        entry = self._outside.items.entry(message, head, sender, queue, seconds, tries, deadline, waits=True)
        self._taken += size
        try:
            self._accumulator.drop_in(entry)
            # Here and not in a method of the sender: every call between costs as much as to append a message.
            await trio.lowlevel.wait_task_rescheduled(sender.abort)
        finally:
            self._taken -= size
            self._eased.set()
        outcome, sender.outcome = sender.outcome, None
        if isinstance(outcome, BaseException):
            try:
                raise outcome
            finally:
                del outcome  # its traceback refers to this frame: no cycle may stay behind
        assert outcome is not None
        return outcome

    @trio.lowlevel.disable_ki_protection
    async def _chosen(self, choice: Choice, topic: str, seconds: float) -> MessageQueue:
        """The queue that a function of the user's chooses."""
        return choice(await self._outside.ensure_route(topic, timeout=seconds))

    async def _wait_room(self, topic: str, deadline: float, seconds: float) -> None:
        self._accumulator.hurry()
        if self._eased.is_set():
            self._eased = trio.Event()
        with trio.move_on_at(deadline):
            await self._eased.wait()
            return
        raise no_room(topic, seconds, self._most)


def no_room(topic: str, seconds: float, most: int) -> TooManyRequestsError:
    """The error for a message for which there was no room in time."""
    return TooManyRequestsError(
        f"messages of {most} bytes, the limit, wait to be sent or acknowledged, and there was no room for a message to "
        f"{topic} within {seconds:g} s: nothing was sent; send more slowly, or raise total_batch_max_bytes"
    )
