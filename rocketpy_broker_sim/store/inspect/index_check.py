"""Whether index and log agree: entries lead to messages with their key, slots to the newest entry, nothing is left out.

Entries stand in the order of the log, so one pass over both compares them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError
from rocketpy.wire.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketpy_broker_sim.store.index.file import ENTRY, FOLDER, SLOT
from rocketpy_broker_sim.store.index.keys import KeyHashes
from rocketpy_broker_sim.store.inspect.findings import DAMAGE, RECOVERED, Finding
from rocketpy_broker_sim.store.inspect.index_shape import HEADER_SIZE
from rocketpy_broker_sim.store.inspect.index_view import open_index, record_at

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.checkpoint import Checkpoint
    from rocketpy_broker_sim.store.index.file import IndexEntry
    from rocketpy_broker_sim.store.inspect.index_view import IndexView
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["IndexCheck"]

_STRAY = "entries lead to no message with their key"
_CHAIN = "entries do not lead to the one before them in their slot"
_LEFT_OUT = "messages within the index have keys without an entry"
_LATE = "messages behind the index have no entries yet"


class IndexCheck:
    """The index of a store while its log goes by.

    Attributes:
        entries: How many entries were found right.
        files: How many files were read.
    """

    def __init__(self, layout: StoreLayout, checkpoint: Checkpoint) -> None:
        self._layout = layout
        self._checkpoint = checkpoint
        self._hashes = KeyHashes()
        self._problems: list[Finding] = []
        self._views = list(self._open())
        self._loaded_last = _loaded_last(self._views)
        used = [view for view in self._views if view.used]
        self._begin = used[0].header.begin_position if used else None
        self._end = used[-1].header.end_position if used else -1
        self._odd: dict[tuple[str, str], list[int]] = {}
        self._entries = self._read()
        self._next = next(self._entries, None)
        self.entries = 0
        self.files = len(self._views)

    def _open(self) -> Iterator[IndexView]:
        for name in self._layout.index:
            try:
                yield open_index(self._layout, name)
            except StoreCorruptError as error:
                path = f"{FOLDER}/{name}"
                if self._layout.opened.size(path):  # an empty one was just being made
                    kind = RECOVERED if self._layout.unclean and name == self._layout.index[-1] else DAMAGE
                    found = Finding(kind=kind, part="index", path=path, offset=0, text=str(error))
                    self._problems.append(found)

    def _read(self) -> Iterator[tuple[IndexView, int, IndexEntry]]:
        """All entries in order; each file's chains are followed, and its slots compared at its end."""
        for view in self._views:
            heads = array("i", bytes(4 * view.shape.slots))
            for number, entry in view.entries():
                slot = entry.hashed % view.shape.slots
                if entry.previous != heads[slot]:
                    self._note(_CHAIN, view, number)
                heads[slot] = number
                yield view, number, entry
            self._compare_slots(view, heads)

    def _compare_slots(self, view: IndexView, heads: array[int]) -> None:
        """Slots must hold what following the entries came to."""
        wrong = [(slot, number) for slot, number in view.slots() if heads[slot] != number]
        empty = _empty_slots(view, heads)
        if not wrong and not empty:
            return
        only_ahead = not empty and all(number > view.used for _, number in wrong)
        kind, slot = self._kind(view, ahead=only_ahead), empty[0] if not wrong else wrong[0][0]
        self._problems.append(
            Finding(
                kind=kind,
                part="index",
                path=view.path,
                position=slot,
                offset=HEADER_SIZE + slot * SLOT.size,
                size=len(wrong) + len(empty),
                text=f"slots do not lead to their newest entry{_ending(kind)}",
            )
        )

    def see(self, record: LogRecord) -> None:
        """Compare the next record of the log with its entries."""
        if self._begin is None:
            return
        rolled_back = record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
        wanted = set() if rolled_back else set(self._hashes.of(record.topic.decode(), record.properties))
        found = set()
        last = self._views[0]
        while self._next is not None and self._next[2].position <= record.position:
            view, number, entry = self._next
            if entry.position == record.position and entry.hashed in wanted:
                found.add(entry.hashed)
                self.entries += 1
            else:
                self._judge(view, number, entry)
            last = view
            self._next = next(self._entries, None)
        if wanted - found and record.position >= self._begin:
            view = self._next[0] if self._next is not None else last
            what = _LEFT_OUT if record.position < self._end else _LATE
            self._note(what, view, record.position)

    def _judge(self, view: IndexView, number: int, entry: IndexEntry) -> None:
        """An entry out of order: a broker that recovered may have indexed a message twice."""
        if entry.position < self._layout.log.start:
            return
        record = record_at(self._layout, entry.position)
        if record is not None and entry.hashed in self._hashes.of(record.topic.decode(), record.properties):
            self.entries += 1
            return
        self._note(_STRAY, view, number)

    def _note(self, what: str, view: IndexView, where: int) -> None:
        odd = self._odd.setdefault((what, view.name), [where, 0])
        odd[1] += 1

    def findings(self) -> Iterator[Finding]:
        """What is odd, when the whole log has gone by."""
        while self._next is not None:
            self._judge(*self._next)
            self._next = next(self._entries, None)
        yield from self._problems
        views = {view.name: view for view in self._views}
        for (what, name), (where, count) in self._odd.items():
            view = views[name]
            kind = RECOVERED if what == _LATE else self._kind(view)
            is_entry = what in (_STRAY, _CHAIN)
            yield Finding(
                kind=kind,
                part="index",
                path=view.path,
                position=where,
                offset=view.shape.entries_at + where * ENTRY.size if is_entry else None,
                size=count,
                text=f"{what}{_ending(kind)}",
            )

    def _kind(self, view: IndexView, *, ahead: bool = False) -> str:
        """Whether the next start mends what is wrong with a file. After a crash it goes on with the first file that is
        not full, and rebuilds those behind it. A broker that runs may be about to flush any of them.

        Args:
            view: The file.
            ahead: Whether its slots lead to entries that its header does not count, and nothing else is wrong.
        """
        is_rebuilt = view.name > self._loaded_last or (
            # Our own broker writes where it was in the log, and trusts what is full; Apache's goes by the time.
            self._checkpoint.flushed is None and view.header.end_timestamp > self._checkpoint.index_timestamp
        )
        is_mended = ahead and view.name == self._loaded_last
        return RECOVERED if self._layout.unclean and (is_rebuilt or is_mended) else DAMAGE


def _loaded_last(views: Sequence[IndexView]) -> str:
    """The name of the first file that is not full, or of the last one: a start after a crash goes on with it."""
    return next((view.name for view in views if view.used < view.shape.entries - 1), views[-1].name if views else "")


def _ending(kind: str) -> str:
    return ": will be recovered at the next start" if kind == RECOVERED else ""


def _empty_slots(view: IndexView, heads: array[int]) -> list[int]:
    """Slots of entries that hold nothing."""
    if sum(map(bool, heads)) <= sum(1 for _ in view.slots()):
        return []
    return [slot for slot, number in enumerate(heads) if number and not view.head(slot)]
