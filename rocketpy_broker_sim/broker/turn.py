"""One turn of the broker: processors run, what they put is written once, then their answers leave.

Nothing here waits. Puts of all processors of a turn are gathered by the store and written by one commit; an answer that
depends on a put goes out only after it. When the commit fails, those answers say so instead; the others are not
touched. With synchronous flushing they are kept until the disk has the records. Then consumers hear of what arrived.
Plays the part of the asynchronous put in SendMessageProcessor and of handleDiskFlush in CommitLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.remoting.dispatch import answer_for_error
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.store.disk.failure import FileCreationError

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.put_times import PutTimes
    from rocketpy_broker_sim.broker.write_conditions import WriteConditions
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Answer", "Turn"]

_logger = get_logger(__name__)


class Answer(NamedTuple):
    """An answer that has not left yet."""

    connection: Connection
    request: RemotingCommand
    command: RemotingCommand
    written_to: int
    """Where the log must have been written to before it may leave; -1 when it depends on no put."""
    wait_for_disk: bool
    """Whether the disk must have the log up to there."""


class Turn:
    """Runs processors and lets their answers go when what they put is safe.

    Args:
        store: what the processors put into.
        conditions: hears how long every append took.
        times: hears how long every put took.
        hooks: see every request and its answer.

    Attributes:
        pending_bytes: Bytes of the bodies of the answers that have not left yet.
        park: Takes the answers that wait for the disk; None when nobody waits for it.
        on_written: Hears that something was written.
        on_arrival: Hears of the messages that can be read now.
        on_behind: Hears that messages could not be brought into their queues, or not all of them yet.
        is_stalled: Whether that failed, so that only a service tries it again.
    """

    def __init__(
        self, store: MessageStore, conditions: WriteConditions, times: PutTimes, hooks: Sequence[RequestHook] = ()
    ) -> None:
        self.pending_bytes = 0
        self.park: Callable[[list[Answer]], None] | None = None
        self.on_written: Callable[[], None] | None = None
        self.on_arrival: Callable[[Arrival], None] | None = None
        self.on_behind: Callable[[], None] | None = None
        self.is_stalled = False
        self._store = store
        self._conditions = conditions
        self._times = times
        self._puts = 0
        self._began = 0.0
        self._hooks = tuple(hooks)
        self._answers: list[Answer] = []
        self._arrivals: list[Arrival] = []
        self._written_to = -1
        self._wait_for_disk = False
        self._dirty = False
        self._is_refused = False

    # --- while processors run ---

    def run(self, processor: Processor, connection: Connection, request: RemotingCommand) -> None:
        """Run one processor; its answer leaves with `finish`, and what it raises becomes its answer."""
        self._written_to = -1
        self._wait_for_disk = False
        try:
            if self._hooks:
                command = self._run_with_hooks(processor, connection, request)
            else:
                command = processor(connection, request)
        except Exception as exc:  # noqa: BLE001  whatever it is, it is the answer to this request alone
            command = answer_for_error(request, exc, connection.address)
        if command is not None:
            self.pending_bytes += len(command.body)
            self._answers.append(Answer(connection, request, command, self._written_to, self._wait_for_disk))

    def _run_with_hooks(
        self, processor: Processor, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        for hook in self._hooks:
            hook.before_request(connection.address, request)
        command = processor(connection, request)
        for hook in self._hooks:
            hook.after_answer(connection.address, request, command)
        return command

    def answer(self, connection: Connection, request: RemotingCommand, command: RemotingCommand) -> None:
        """Add an answer that depends on nothing."""
        self._answers.append(Answer(connection, request, command, -1, wait_for_disk=False))

    def depends_on(self, written_to: int, *, wait_for_disk: bool) -> None:
        """The answer of the running processor must not leave before the log is written up to there."""
        if not self._dirty:
            self._dirty = True
            self._began = trio.current_time()
        self._puts += 1
        self._written_to = max(self._written_to, written_to)
        self._wait_for_disk = self._wait_for_disk or wait_for_disk

    def note_arrival(self, arrival: Arrival) -> None:
        """The store says what can be read now; consumers hear of it when the store is done."""
        self._arrivals.append(arrival)

    # --- when they are done ---

    def finish(self) -> None:
        """Write what was put, let the answers go, then wake the consumers that wait."""
        if not self._dirty:
            if self._answers:
                self._send(None)
            return
        puts, self._puts = self._puts, 0
        failure = self._commit()
        waiting = self._send(failure)
        if failure is None:
            self._times.note(puts - len(waiting), trio.current_time() - self._began)
            self._publish(waiting)
        else:
            self._times.failed += puts

    def commit(self) -> None:
        """Write at once what a service put, outside any request.

        Raises:
            StoreError: nothing of it was stored.
        """
        failure = self._commit()
        if failure is not None:
            raise failure
        self._publish([])

    def _publish(self, waiting: list[Answer]) -> None:
        """Let consumers read what was written, now or when the disk has it."""
        if self.park is None:
            self.make_readable()
        else:
            self.park(waiting)

    def make_readable(self) -> None:
        """Let consumers read what was written (with synchronous flushing: what the disk has)."""
        if not self.is_stalled:
            self.reput()
        while self._arrivals:
            arrivals, self._arrivals = self._arrivals, []
            if self.on_arrival is not None:
                for arrival in arrivals:
                    self.on_arrival(arrival)
        if self._answers:
            self._send(None)

    def reput(self) -> None:
        """Bring written messages into their queues; what fails is left to a service."""
        try:
            self._store.reput()
        except StoreError as exc:
            if not self.is_stalled:
                _logger.error("messages cannot be brought into their queues: %s", exc)
            self.is_stalled = True
        else:
            self.is_stalled = False
        if (self.is_stalled or self._store.can_reput) and self.on_behind is not None:
            self.on_behind()

    def _commit(self) -> StoreError | None:
        self._dirty = False
        began = trio.current_time()
        try:
            self._store.commit_pending()
        except StoreError as exc:
            if not self._is_refused:  # said once: with a full disk every turn of a busy broker comes here
                _logger.error("messages are not stored: %s", exc)
            self._is_refused = True
            return exc
        finally:
            self._conditions.note_append(began, trio.current_time())
        if self._is_refused:
            self._is_refused = False
            _logger.warning("messages are stored again")
        if self.on_written is not None:
            self.on_written()
        return None

    def _send(self, failure: StoreError | None) -> list[Answer]:
        """Let answers go. Returns those that have to wait for the disk."""
        answers, self._answers = self._answers, []
        self.pending_bytes = 0
        waiting = []
        for answer in answers:
            connection, request, command, written_to, wait_for_disk = answer
            if written_to >= 0:
                if failure is not None:
                    command = _refusal(request, failure)
                elif wait_for_disk and self.park is not None:
                    waiting.append(answer)
                    continue
            connection.send_answer(request, command)
        return waiting


def _refusal(request: RemotingCommand, failure: StoreError) -> RemotingCommand:
    """The answer to a put that the disk refused."""
    if isinstance(failure, FileCreationError):
        return request.answer(ResponseCode.SYSTEM_ERROR, _NO_FILE)
    return request.answer(ResponseCode.SERVICE_NOT_AVAILABLE, _NOT_STORED)


_NO_FILE = "the message was not stored: no new file could be made for it, the log of the broker says why"
_NOT_STORED = "the message was not stored: the disk of the broker is full or broken, its log says more"
