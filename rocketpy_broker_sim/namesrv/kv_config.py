"""KVConfig: values by namespace and key that operators keep at a name server, in memory and in kvConfig.json.

Plays the part of KVConfigManager. Order-topic settings are the one namespace that the protocol itself reads. As with
Apache's, the empty namespace and the empty key are names like others.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from rocketpy.errors import NoPermissionError, StoreCorruptError, StoreError
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.namesrv.long_answers import kv_table_body
from rocketpy_broker_sim.serving.memory import TableRoom

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["FILE_NAME", "ORDER_TOPIC_CONFIG", "KVChange", "KVConfig", "KVDraft", "taken_by"]

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
FILE_NAME = "kvConfig.json"
MAX_ENTRIES = 10_000
MAX_SIZE = 4 * 1024 * 1024
"""Characters of all entries: the whole table is written with every change."""
_BYTES_AN_ENTRY = 256
_BYTES_A_NAMESPACE = 384
_ENTRIES_A_STEP = 256
_SIZE_A_STEP = 64 * 1024

_Table = dict[str, dict[str, str]]


@attrs.frozen(kw_only=True)
class KVChange:
    """A value that is set, or removed when it is None."""

    namespace: str
    key: str
    value: str | None = None

    @property
    def size(self) -> int:
        """Characters."""
        return len(self.namespace) + len(self.key) + len(self.value or "")


class KVDraft:
    """A table with some changes, of which the namespaces that change are copies."""

    def __init__(self, table: _Table, entries: int, size: int, room: TableRoom) -> None:
        self.table = dict(table)
        self.entries = entries
        self.size = size
        self.taken = room.taken
        """Bytes that it is reckoned to take."""
        self._room = room
        self.is_changed = False
        self._own: set[str] = set()

    def apply(self, change: KVChange) -> None:
        """Make a change.

        Raises:
            NoPermissionError: the table would be too large.
        """
        pairs = self.table.get(change.namespace, {})
        former = pairs.get(change.key)
        if change.value == former:
            return
        entries = self.entries - (former is not None) + (change.value is not None)
        size = self.size + len(change.value or "") - len(former or "")
        if former is None:
            size += len(change.key) + (0 if pairs else len(change.namespace))
        if change.value is None:
            size -= len(change.key) + (len(change.namespace) if len(pairs) == 1 else 0)
        _check(entries, size, is_new=former is None, former_size=self.size)
        taken = self.taken + _difference(change, former, self.table.get(change.namespace))
        if taken > self.taken and not self._room.fits(taken - self._room.taken):
            raise NoPermissionError(ResponseCode.NO_PERMISSION, self._room.refusal)
        self._set(change)
        self.entries, self.size, self.taken, self.is_changed = entries, size, taken, True

    def _set(self, change: KVChange) -> None:
        if change.namespace not in self._own:
            self._own.add(change.namespace)
            self.table[change.namespace] = dict(self.table.get(change.namespace, {}))
        pairs = self.table[change.namespace]
        if change.value is not None:
            pairs[change.key] = change.value
            return
        del pairs[change.key]
        if not pairs:
            del self.table[change.namespace]
            self._own.discard(change.namespace)


def size_of_entry(key: str, value: str) -> int:
    """Bytes that an entry is reckoned to take in the table, and in the answer that lists it."""
    return _BYTES_AN_ENTRY + 2 * (_bytes_of(key) + _bytes_of(value))


def size_of_namespace(name: str) -> int:
    """Bytes that a namespace is reckoned to take besides its entries."""
    return _BYTES_A_NAMESPACE + _bytes_of(name)


def _bytes_of(text: str) -> int:
    """At most four bytes a character."""
    return len(text) if text.isascii() else 4 * len(text)


def _difference(change: KVChange, former: str | None, pairs: Mapping[str, str] | None) -> int:
    """Bytes by which a change makes its namespace larger. It does change something."""
    before = 0 if former is None else size_of_entry(change.key, former)
    after = 0 if change.value is None else size_of_entry(change.key, change.value)
    if pairs is None:
        after += size_of_namespace(change.namespace)
    elif change.value is None and len(pairs) == 1:
        before += size_of_namespace(change.namespace)
    return after - before


def _check(entries: int, size: int, *, is_new: bool, former_size: int) -> None:
    if is_new and entries > MAX_ENTRIES:
        raise NoPermissionError(
            ResponseCode.NO_PERMISSION, f"no more than {MAX_ENTRIES} key-value entries are kept: delete some first"
        )
    if size > max(MAX_SIZE, former_size):
        raise NoPermissionError(
            ResponseCode.NO_PERMISSION,
            f"no more than {MAX_SIZE} characters of key-value entries are kept: delete some first",
        )


class KVConfig:
    """Namespaces of key-value pairs; a change counts when it is on the disk, where a storage is given.

    Args:
        storage: where the file is; None keeps nothing.
        path: of the file in it.
        room: what they take counts there.

    Attributes:
        is_in_doubt: Whether the file may say something else, as writing it failed at the end: what changes nothing here
            is written, too.
    """

    def __init__(self, storage: Storage | None = None, path: str = FILE_NAME, room: TableRoom | None = None) -> None:
        self._storage = storage
        self._path = path
        self._table: _Table = {}
        self._entries = 0
        self._size = 0
        self._room = room or TableRoom()
        self._bodies: dict[str, bytes] = {}
        self.is_in_doubt = False

    @property
    def is_kept(self) -> bool:
        """Whether it is written to a file."""
        return self._storage is not None

    def load(self) -> None:
        """Read what was persisted, if anything was.

        Raises:
            StoreCorruptError: the file is there and is not what was written.
            StoreError: the disk does not give it.
        """
        if self._storage is None:
            return
        where = self._storage.describe(self._path)
        try:
            if not self._storage.exists(self._path):
                return
            table = json.loads(self._storage.read_bytes(self._path))["configTable"]
            self._table = {str(name): {str(k): str(v) for k, v in pairs.items()} for name, pairs in table.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise StoreCorruptError(f"{where} is not a key-value file: repair it or move it away", path=where) from exc
        except OSError as exc:
            raise StoreError(f"{where} cannot be read: {exc.strerror}") from exc
        self._entries = sum(map(len, self._table.values()))
        self._size = _size(self._table)
        self._room.set(taken_by(self._table))

    # --- asking ---

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """One namespace as it is now, None when there is none."""
        pairs = self._table.get(namespace)
        return None if pairs is None else MappingProxyType(pairs)

    def body_steps(self, namespace: str) -> Generator[None, None, bytes]:
        """A namespace as the body of an answer, made in steps once for each of its states."""
        pairs = self._table.get(namespace)
        known = self._bodies.get(namespace)
        if known is None:
            known = yield from kv_table_body(pairs or {})
            if self._table.get(namespace) is pairs:
                self._bodies = {namespace: known}
        return known

    # --- changing ---

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value at once.

        Raises:
            NoPermissionError: the table is full.
            StoreError: the file cannot be written; the old value stays.
        """
        self.change(KVChange(namespace=namespace, key=key, value=value))

    def delete(self, namespace: str, key: str) -> None:
        """Remove a value at once; fine when there is none.

        Raises:
            StoreError: the file cannot be written; the value stays.
        """
        self.change(KVChange(namespace=namespace, key=key))

    def change(self, change: KVChange) -> None:
        """Make a change at once, on the disk too.

        Raises:
            NoPermissionError: the table is full.
            StoreError: the file cannot be written; the table stays as it was.
        """
        draft = self.draft()
        draft.apply(change)
        if draft.is_changed or self.is_in_doubt:
            self.save(run_steps(self.encode_steps(draft)))
            self.take_over(draft)

    def draft(self) -> KVDraft:
        """Begin to change it. What was drafted counts when it is taken over."""
        return KVDraft(self._table, self._entries, self._size, self._room)

    def encode_steps(self, draft: KVDraft) -> Generator[None, None, list[bytes]]:
        """The file of a draft, in pieces: all of it as one text would be copied several times over."""
        pieces = [b'{\n "configTable": {']
        lines: list[str] = []
        size = 0
        for count, (name, pairs) in enumerate(draft.table.items()):
            lines.append(f"{',' if count else ''}\n  {encode_basestring(name)}: {{")
            for number, (key, value) in enumerate(pairs.items()):
                comma = "," if number else ""
                lines.append(f"{comma}\n   {encode_basestring(key)}: {encode_basestring(value)}")
                size += len(key) + len(value)
                if len(lines) >= _ENTRIES_A_STEP or size >= _SIZE_A_STEP:
                    pieces.append("".join(lines).encode())
                    lines.clear()
                    size = 0
                    yield
            lines.append("\n  }")
        pieces.append("".join(lines).encode())
        pieces.append(b"\n }\n}" if draft.table else b"}\n}")
        return pieces

    def save(self, pieces: Sequence[bytes]) -> None:
        """Write the file, where there is one. Blocking.

        Raises:
            StoreError: it cannot be written.
        """
        if self._storage is None:
            return
        try:
            self._storage.write_bytes_atomic(self._path, b"".join(pieces))
            self.is_in_doubt = False
        except OSError as exc:
            self.is_in_doubt = True
            raise StoreError(f"{self._storage.describe(self._path)} cannot be written: {exc.strerror}") from exc

    def take_over(self, draft: KVDraft) -> None:
        """Make a draft the table."""
        self._table, self._entries, self._size = draft.table, draft.entries, draft.size
        self._room.set(draft.taken)
        self._bodies = {}


def taken_by(table: Mapping[str, Mapping[str, str]]) -> int:
    """Bytes that a table is reckoned to take."""
    return sum(
        size_of_namespace(name) + sum(size_of_entry(key, value) for key, value in pairs.items())
        for name, pairs in table.items()
    )


def _size(table: Mapping[str, Mapping[str, str]]) -> int:
    return sum(len(name) + sum(len(key) + len(value) for key, value in pairs.items()) for name, pairs in table.items())
