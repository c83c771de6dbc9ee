"""One turn of the broker: processors run, what they put is written once, then their answers leave.

Nothing here waits. Puts of all processors of a turn are gathered by the store and written by one commit; an answer that
depends on a put goes out only after it. When the commit fails, those answers say so instead; the others are not
touched. What an answer waits for beyond that, the gate (`flushing.gate`) sees to. A turn returns what can be read
afterwards as a value: the lanes hand it to those who wait. Plays the part of the asynchronous put in
SendMessageProcessor.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.remoting.answers import answer_for_error
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.changes import Changes
from rocketpy_broker_sim.broker.replies import NOTHING_PUT, Reply
from rocketpy_broker_sim.store.disk.failure import FileCreationError, UnknownOutcomeError
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.flushing.gate import Durability
    from rocketpy_broker_sim.broker.putting.put_pipeline import Put
    from rocketpy_broker_sim.broker.putting.put_times import PutTimes
    from rocketpy_broker_sim.broker.replies import Replies
    from rocketpy_broker_sim.broker.write_conditions import WriteConditions
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["RunProcessor", "Turn"]

_logger = get_logger(__name__)

LARGE = 16 * 1024
"""Bytes of a body after which a run is carried out at once: it takes its time, which is looked at then."""
MOST_GATHERED = 128 * 1024
"""Bytes of the bodies of a run."""
MOST_APART = 128
"""Requests of a run that are carried out apart from sends."""


class RunProcessor:
    """A processor that takes the requests of a connection which follow each other in one go.

    Without a metaclass: every request is asked whether its processor is one.

    Attributes:
        is_apart: Whether its requests may be carried out before sends of the same connection that came just before
            them. Then these sends can still be put in one go. Apache's broker has threads for such requests, and so no
            order either.
    """

    is_apart = False

    @abstractmethod
    def __call__(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Carry out one request, as any processor does."""

    @abstractmethod
    def take(self, connection: Connection, requests: Sequence[RemotingCommand]) -> Sequence[Replies]:
        """Carry out several, in order. Whatever fails belongs to a request, and is its reply."""


class Turn:
    """Runs processors and lets their answers go when what they put is safe.

    Args:
        store: what the processors put into.
        gate: hears what was written, and keeps answers that wait for more.
        conditions: hears how long every append took.
        times: hears how long every put took.
        hooks: see every request and its answer.
        changes: what depends on the turn being written.

    Attributes:
        pending_bytes: Bytes of the bodies of the answers that have not left yet.
        is_stalled: Whether messages could not be brought into their queues, so that only a service tries it again.
    """

    def __init__(
        self,
        store: MessageStore,
        gate: Durability,
        conditions: WriteConditions,
        times: PutTimes,
        hooks: Sequence[RequestHook] = (),
        changes: Changes | None = None,
    ) -> None:
        self.pending_bytes = 0
        self.is_stalled = False
        self._store = store
        self._gate = gate
        self._conditions = conditions
        self._times = times
        self._puts = 0
        self._began = 0.0
        self._hooks = tuple(hooks)
        self._replies: list[Replies] = []
        self._arrivals: list[Arrival] = []
        self._arrived = trio.lowlevel.ParkingLot()
        self._changes = Changes() if changes is None else changes
        self._is_behind = False
        self._behind = trio.lowlevel.ParkingLot()
        self._position = NOTHING_PUT
        self._for_disk = False
        self._new_topic: str | None = None
        self._run: tuple[RunProcessor, Connection, list[RemotingCommand]] | None = None
        self._apart: tuple[RunProcessor, Connection, list[RemotingCommand]] | None = None
        self._gathered = 0
        self._dirty = False
        self._is_refused = False

    # --- while processors run ---

    def run(self, processor: Processor, connection: Connection, request: RemotingCommand) -> None:
        """Run one processor; its answer leaves with `finish`, and what it raises becomes its answer.

        Requests that can be taken in one go are gathered until another one comes, or the turn ends.
        """
        if isinstance(processor, RunProcessor) and not self._hooks:
            self._gather(processor, connection, request)
            return
        if self._run is not None or self._apart is not None:
            self._take_run()
        self.run_alone(processor, connection, request)

    def run_alone(self, processor: Processor, connection: Connection, request: RemotingCommand) -> None:
        """Run one processor now, also within a run; as `run` otherwise."""
        self._position = NOTHING_PUT
        self._for_disk = False
        self._new_topic = None
        try:
            if self._hooks:
                command = self._run_with_hooks(processor, connection, request)
            else:
                command = processor(connection, request)
        except Exception as exc:  # noqa: BLE001  whatever it is, it is the answer to this request alone
            command = answer_for_error(request, exc, connection.address)
        if command is not None:
            self.pending_bytes += len(command.body)
            reply = Reply(
                connection, request, command, self._position, for_disk=self._for_disk, new_topic=self._new_topic
            )
            self._replies.append(reply)

    def _gather(self, processor: RunProcessor, connection: Connection, request: RemotingCommand) -> None:
        if processor.is_apart:
            self._gather_apart(processor, connection, request)
            return
        run = self._run
        if run is not None and run[1] is connection and run[0] is processor:
            run[2].append(request)
        else:
            if run is not None:
                self._take_run()
            self._run = (processor, connection, [request])
        self._gathered += len(request.body)
        if self._gathered > MOST_GATHERED or len(request.body) > LARGE:
            self._take_run()

    def _gather_apart(self, processor: RunProcessor, connection: Connection, request: RemotingCommand) -> None:
        apart = self._apart
        if apart is not None and apart[1] is connection and apart[0] is processor and len(apart[2]) < MOST_APART:
            apart[2].append(request)
            return
        self._take_apart()
        self._apart = (processor, connection, [request])

    def _take_run(self) -> None:
        """Carry out what has been gathered."""
        self._take_apart()
        run, self._run = self._run, None
        self._gathered = 0
        if run is not None:
            self._carry_out(*run)

    def _take_apart(self) -> None:
        """Carry out what has been gathered apart from sends."""
        apart, self._apart = self._apart, None
        if apart is not None:
            self._carry_out(*apart)

    def _carry_out(self, processor: RunProcessor, connection: Connection, requests: list[RemotingCommand]) -> None:
        began, before = trio.current_time(), len(self._replies)
        try:
            taken = processor.take(connection, requests)
        except Exception as exc:  # noqa: BLE001  whatever it is, it is the answer to this run alone
            self._note_puts(0, began)  # it may have put some of it
            self._answer_error(connection, requests, exc, self._replies[before:])
            return
        for each in taken:
            self.add(each, began)

    def _answer_error(
        self, connection: Connection, requests: Sequence[RemotingCommand], exc: Exception, given: Sequence[Replies]
    ) -> None:
        """Answer the requests of a run that failed, but for those that have been given a reply before."""
        command = answer_for_error(requests[0], exc, connection.address)
        answered = {id(each.request) for each in given if isinstance(each, Reply)}
        for request in requests:
            if id(request) not in answered:
                self.answer(connection, request, request.answer(command.code, command.remark))

    def add(self, replies: Replies, began: float | None = None) -> None:
        """Add replies to what has been put, since `began`."""
        self._replies.append(replies)
        if replies.position != NOTHING_PUT:
            self._note_puts(len(replies), trio.current_time() if began is None else began)

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
        self._replies.append(Reply(connection, request, command))

    def depends_on(self, position: int, *, wait_for_disk: bool) -> None:
        """The answer of the running processor must not leave before the log is written up to there."""
        self._note_puts(1, trio.current_time())
        self._position = max(self._position, position)
        self._for_disk = self._for_disk or wait_for_disk

    def rests_on(self, put: Put) -> None:
        """The answer of the running processor depends on what became of a put."""
        if put.new_topic is not None:
            self._new_topic = put.new_topic
        if put.result is not None and put.result.status is PutMessageStatus.PUT_OK:
            self.depends_on(put.result.end, wait_for_disk=put.wait)

    def _note_puts(self, count: int, began: float) -> None:
        if not self._dirty:
            self._dirty = True
            self._began = began
        self._puts += count

    # --- when they are done ---

    def end(self) -> Sequence[Arrival]:
        """Write what was put and let the answers go.

        Returns:
            What can be read now and nobody has been told of. The caller hands it out, and then ends the turn again.
        """
        if self._run is not None or self._apart is not None:
            self._take_run()
        if self._dirty:
            self._write()
        elif self._replies:
            self._send(None)
        arrivals = self._arrivals
        if not arrivals:
            return ()
        self._arrivals = []
        return arrivals

    def finish(self) -> None:
        """The same for those who hand nothing out: who is in `wait_arrivals` does that soon."""
        arrivals = self.end()
        if arrivals:
            self._arrivals = [*arrivals, *self._arrivals]
            self._arrived.unpark()

    async def wait_arrivals(self) -> None:
        """Return when something can be read that nobody has been told of. For one task."""
        while not self._arrivals:
            await self._arrived.park()

    def _tell(self) -> None:
        if self._arrivals:
            self._arrived.unpark()

    def commit(self) -> None:
        """Write at once what a service put, outside any request.

        What a large batch put, which was read in slices, is written with it, and answered.

        Raises:
            StoreError: nothing of it was stored.
        """
        self._take_run()
        failure = self._write()
        if failure is not None:
            raise failure
        self._tell()

    def _write(self) -> StoreError | None:
        """Write what was put, and let the answers go that depend on it; what failed, if anything did."""
        puts, self._puts = self._puts, 0
        failure = self._commit()
        self._changes.settle(failure)
        waiting = self._send(failure)
        if failure is not None:
            self._times.failed += puts
            return failure
        if puts:
            self._times.note(puts - waiting, trio.current_time() - self._began)
        if not self._gate.is_synchronous and not self.is_stalled:  # else who flushes does it, or tries it again
            self.reput()
        return None

    def make_readable(self) -> None:
        """Let consumers read what was written (with synchronous flushing: what the disk has), soon."""
        if not self.is_stalled:
            self.reput()
        self._tell()

    def reput(self) -> None:
        """Bring written messages into their queues; what fails is left to a service."""
        try:
            self._arrivals += self._store.reput()
        except StoreError as exc:
            if not self.is_stalled:
                _logger.error("messages cannot be added to their queues: %s", exc)
            self.is_stalled = True
        else:
            self.is_stalled = False
        if self.is_stalled or self._store.can_reput:
            self._is_behind = True
            self._behind.unpark()

    async def wait_behind(self) -> None:
        """Return when messages could not be brought into their queues, or not all of them. For one service."""
        while not self._is_behind:
            await self._behind.park()
        self._is_behind = False

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
        self._gate.note_written()
        return None

    def _send(self, failure: StoreError | None) -> int:
        """Let answers go, or hand them to the gate. Returns how many have to wait for the disk."""
        replies, self._replies = self._replies, []
        self.pending_bytes = 0
        waiting = 0
        for each in replies:
            if each.position == NOTHING_PUT:
                each.send()
            elif failure is not None:
                each.send_instead(*_refusal(failure))
            elif not self._gate.pass_on(each):
                waiting += len(each)
        return waiting


def _refusal(failure: StoreError) -> tuple[ResponseCode, str]:
    """The answer to a put that the disk refused."""
    if isinstance(failure, UnknownOutcomeError):
        return ResponseCode.SYSTEM_ERROR, _UNKNOWN
    if isinstance(failure, FileCreationError):
        return ResponseCode.SYSTEM_ERROR, _NO_FILE
    return ResponseCode.SERVICE_NOT_AVAILABLE, _NOT_STORED


_UNKNOWN = (
    "whether the message was stored is not known: the disk of the broker failed while it was written, and when it was "
    "to be taken back; its log says more"
)
_NO_FILE = "the message was not stored: no new file could be made for it, the log of the broker says why"
_NOT_STORED = "the message was not stored: the disk of the broker is full or broken, its log says more"
