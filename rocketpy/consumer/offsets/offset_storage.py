"""Offsets that are not kept at brokers: the storage, and the offset store on top of it.

`OffsetStorage` is what users may write: it only reads and writes. `KeptOffsetStore` makes an offset store of it: it
keeps offsets in memory, writes only those that have changed, one write at a time, and handles every error of the
storage. Offsets that could not be written stay in memory and are written the next time, so an error loses no message;
at worst some come again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import trio

from rocketpy.consumer.listeners import let_pass
from rocketpy.errors import OffsetStoreError
from rocketpy.logs import Seldom, counted, error_text, get_logger, shown

if TYPE_CHECKING:
    from rocketpy.consumer.user_calls import UserCalls
    from rocketpy.message import MessageQueue

__all__ = ["KeptOffsetStore", "OffsetStorage"]

logger = get_logger(__name__)

_MAX_OFFSET = 2**63 - 1


@runtime_checkable
class OffsetStorage(Protocol):
    """A place other than the brokers where a consumer keeps its offsets: pass an object like this as `offset_store=`.

    The offset of a queue is that of the next message to consume. Both methods may be plain functions, which are called
    in a thread, or `async def`. Two more methods without arguments are optional: `open` is called when the consumer
    starts, and `close` when it has written everything at its end, or when `open` failed. An exception of `open` makes
    the start fail.
    """

    def read(self, queue: MessageQueue) -> int | Awaitable[int | None] | None:
        """Return the offset of a queue, or None if there is none, and `consume_from_where` should decide.

        If it raises, the queue is not consumed for now, and `read` is called again soon.
        """
        ...

    def write(self, offsets: Mapping[MessageQueue, int]) -> Awaitable[None] | None:
        """Store these offsets, which have changed. If it raises, they are passed again, or newer ones instead.

        Commits wait for it, so calling `commit` of the same consumer in it raises ConfigError.
        """
        ...


class KeptOffsetStore:
    """An offset store on top of a storage. Plays the part of OffsetStore.

    Args:
        storage: keeps the offsets.
        group: the consumer group, for error texts.
        calls: calls the storage's methods.
        timeout: seconds that one call of the storage may take.
    """

    at_brokers = False

    def __init__(self, storage: OffsetStorage, group: str, calls: UserCalls, *, timeout: float) -> None:
        self._storage = storage
        self._group = group
        self._calls = calls
        self._timeout = timeout
        self._offsets: dict[MessageQueue, int] = {}
        self._written: dict[MessageQueue, int] = {}
        self._writing = trio.Lock()
        self._failing = False
        self._seldom = Seldom(logger, clock=trio.current_time)

    async def open(self) -> None:
        """Open the storage, if it has `open`.

        Raises:
            OffsetStoreError: its `open` failed, or took too long.
        """
        await self._call_if_there("open", "opening")

    async def close(self) -> None:
        """Close the storage, if it has `close`. Errors are logged."""
        try:
            await self._call_if_there("close", "closing")
        except OffsetStoreError as error:
            logger.warning("%s", error)

    # --- memory ---------------------------------------------------------------------------------------

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Record the progress of a queue in memory; with `increase_only`, a lower offset is ignored."""
        known = self._offsets.get(queue)
        if known is None or not increase_only or known < offset:
            self._offsets[queue] = offset

    def memory(self, queue: MessageQueue) -> int | None:
        """The offset recorded in memory, None if there is none."""
        return self._offsets.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Forget the offset recorded in memory."""
        self._offsets.pop(queue, None)
        self._written.pop(queue, None)

    # --- storage --------------------------------------------------------------------------------------

    async def read(self, queue: MessageQueue) -> int | None:
        """The storage's offset of a queue, which is recorded in memory too; None if it has none.

        Raises:
            OffsetStoreError: it raised an exception, took too long, or returned something other than an offset.
        """
        offset = await self.committed(queue)
        if offset is not None:
            self._offsets[queue] = self._written[queue] = offset
        return offset

    async def committed(self, queue: MessageQueue) -> int | None:
        """The storage's offset of a queue, without recording it; None if it has none. Raises what `read` raises."""
        offset = await self._call(self._storage.read, queue, doing=f"asking for the offset of {queue}")
        if offset is None:
            return None
        if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= _MAX_OFFSET:
            raise OffsetStoreError(
                f"the offset store of {self._group} returned {shown(offset)} as the offset of {queue}: read must "
                "return an int of 0 or more, or None"
            )
        return offset

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Write offsets that have changed. Of several errors in a row, the first is logged; the next call retries."""
        try:
            await self._write(queues)
        except OffsetStoreError as error:
            if not self._failing:
                self._seldom.warning("write", "%s; the offsets are written with the next call", error)
            self._failing = True

    async def commit(self, queues: Collection[MessageQueue]) -> None:
        """Write offsets that have changed.

        Raises:
            OffsetStoreError: the storage failed, and the offsets count as not written.
        """
        await self._write(queues)

    async def commit_all(self, queues: Collection[MessageQueue], *, deadline: float) -> list[MessageQueue]:
        """Write offsets that have changed. Returns the queues whose offset is not written by the deadline."""
        with trio.move_on_at(deadline):
            await self.persist(queues)
        return self.unwritten(queues)

    def unwritten(self, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        """Those of these queues whose recorded offsets are not written yet."""
        return list(self._changed(queues))

    async def _write(self, queues: Collection[MessageQueue]) -> None:
        async with self._writing:
            if changed := self._changed(queues):
                doing = f"writing {counted(len(changed), 'offset')}"
                await self._call(self._storage.write, changed, doing=doing, writes=True)
                self._written.update(changed)
                self._failing = False

    def _changed(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        noted = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
        return {queue: offset for queue, offset in noted.items() if self._written.get(queue) != offset}

    async def _call_if_there(self, name: str, doing: str) -> None:
        function = getattr(self._storage, name, None)
        if function is not None:
            await self._call(function, doing=doing)

    async def _call(self, function: Callable[..., Any], *arguments: object, doing: str, writes: bool = False) -> Any:
        task = trio.lowlevel.current_task()
        try:
            with trio.fail_after(self._timeout):
                return await self._calls.call(function, *arguments, writes=writes)
        except trio.TooSlowError as error:
            raise OffsetStoreError(
                f"the offset store of {self._group} has not answered within {self._timeout:g} s: {doing}"
            ) from error
        except OffsetStoreError:
            raise
        except BaseException as error:
            let_pass(error, task)
            raise OffsetStoreError(f"the offset store of {self._group} failed: {doing}: {error_text(error)}") from error
