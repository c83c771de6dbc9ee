"""Keeps the configuration files of a broker up to date: at once after a change, offsets every few seconds, at stop.

Changes that come together are encoded in slices and written in a thread, together, so that a burst of new topics costs
a few writes and holds up nobody. Who has to know that a change is on the disk asks with `after_save`. Plays the part of
the calls of persist() in the managers of BrokerController.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.services import run_blocking, ticks
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.replies import without_body
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.tables.persist import StoredTable

__all__ = ["Persistence"]

log = get_logger(__name__)

Done = Callable[[StoreError | None], None]
"""Told once, whether what had changed is on the disk."""


class Persistence:
    """Writes tables to their files.

    Args:
        tables: what it keeps; they wake it when they change.
    """

    def __init__(self, tables: Iterable[StoredTable]) -> None:
        self._tables = list(tables)
        self._waiting: list[Done] = []
        self._woken = trio.Event()
        self._turn = trio.Lock()
        self._failing = False
        for table in self._tables:
            table.on_change(self._wake)

    def _wake(self) -> None:
        self._woken.set()

    def after_save(self, done: Done) -> None:
        """Call `done` once everything that has changed until now is written, or could not be."""
        self._waiting.append(done)
        self._wake()

    def answer_after_save(
        self, connection: Connection, request: RemotingCommand, answer: RemotingCommand
    ) -> RemotingCommand | None:
        """What a processor returns whose change must be on the disk before its answer leaves.

        Returns:
            The answer when nothing has changed, else None: it is sent later.
        """
        if not any(table.changed for table in self._tables) and not self._turn.locked():
            return answer
        request = without_body(request)  # which may be large, and so may be the files that it changes
        self.do_after_save(connection, request, lambda: connection.send_answer(request, answer))
        return None

    def send_after_save(self, connection: Connection, request: RemotingCommand, frame: bytes) -> None:
        """Send a prebuilt answer to a request whose change must be on the disk before it leaves."""
        request = without_body(request)
        self.do_after_save(connection, request, lambda: connection.send_answer_frame(request, frame))

    def do_after_save(self, connection: Connection, request: RemotingCommand, send: Callable[[], object]) -> None:
        """Call a function when a change is on the disk; if the disk refuses, answer a request with that instead."""

        def done(error: StoreError | None) -> None:
            if error is None:
                send()
            else:
                remark = "the change holds until the broker stops: its disk is full or broken"
                connection.send_answer(request, request.answer(ResponseCode.SYSTEM_ERROR, remark))

        self.after_save(done)

    @trio.lowlevel.enable_ki_protection
    async def serve_changes(self) -> None:
        """Write changes as they come, until cancelled."""
        while True:
            await self._woken.wait()
            # Replaced here and nowhere else: this task must never wait for an event that another has replaced.
            self._woken = trio.Event()
            await self.save()

    @trio.lowlevel.enable_ki_protection
    async def serve_periodically(self, interval: float) -> None:
        """Write what changes too often to be written at once, and what could not be written before."""
        async for _ in ticks(interval):
            await self.save()

    async def save(self) -> None:
        """Write what has changed. A file that cannot be written is tried again with the next round."""
        async with self._turn:
            waiting, self._waiting = self._waiting, []
            error: StoreError | None = None
            try:
                for table in self._tables:
                    error = await self._save(table) or error
            except BaseException:
                self._waiting[:0] = waiting  # cancelled: the round at the stop will tell them
                raise
            self._note(error)
            waiting.reverse()
            while waiting:
                waiting.pop()(error)  # and let go of its answer, which may be large

    async def _save(self, table: StoredTable) -> StoreError | None:
        if not table.changed:
            return None
        # Cleared first: a change during the write is one for the next round.
        table.changed = False
        try:
            data = await in_slices(table.encode_steps())
            await run_blocking(table.file.save, data)
        except StoreError as exc:
            table.changed = True
            return exc
        except BaseException:
            table.changed = True  # cancelled: the write may have been done or not
            raise
        return None

    def _note(self, error: StoreError | None) -> None:
        if error is not None and not self._failing:
            log.error("the configuration of the broker cannot be written, trying again: %s", error)
        elif error is None and self._failing:
            log.info("the configuration of the broker is written again")
        self._failing = error is not None
