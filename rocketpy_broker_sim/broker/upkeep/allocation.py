"""Making the next file of the commit log while the current one fills, in a thread: a roll then waits for nothing.

It sleeps until the log begins a file. What it cannot make, the log makes itself when it gets there, or refuses then.
Plays the part of AllocateMappedFileService.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.services import run_blocking

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.disk.files_ahead import FilesAhead, SpareFile

__all__ = ["FileAllocation"]

_logger = get_logger(__name__)


class FileAllocation:
    """Keeps one file ahead of the log.

    Args:
        files: What knows the log's files.
    """

    def __init__(self, files: FilesAhead) -> None:
        self._files = files
        self._rolled = trio.Event()
        self._failed = False
        self._refused = False
        files.subscribe(self._wake)

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Make a file whenever the log has begun one."""
        while True:
            self._rolled = trio.Event()
            if self._files.is_due:
                await self._make()
            await self._rolled.wait()

    def _wake(self) -> None:
        self._rolled.set()

    async def _make(self) -> None:
        """Make the next file; failing is said once, until it succeeds again."""
        try:
            spare = self._files.begin(threading.Lock())
            # Between two pieces the broker can be closed: a file of a gigabyte takes seconds to warm.
            while await run_blocking(spare.advance):
                pass
        except StoreError as exc:
            self._files.give_up()
            if not self._failed:
                _logger.warning("the next log file could not be created in advance, and will be when needed: %s", exc)
            self._failed = True
        else:
            self._failed = False
            self._tell_refusal(spare)

    def _tell_refusal(self, spare: SpareFile) -> None:
        if spare.refusal is not None and not self._refused:
            self._refused = True
            _logger.warning(
                "new files of the commit log are not locked in memory (%s): raise the limit of locked memory "
                "(ulimit -l, LimitMEMLOCK= of systemd) above the size of one file, or set warmMapedFileEnable=false",
                spare.refusal.strerror,
            )
