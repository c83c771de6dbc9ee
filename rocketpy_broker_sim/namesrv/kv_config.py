"""KVConfig: values by namespace and key that operators keep at a name server, in memory and in kvConfig.json.

Plays the part of KVConfigManager. Order-topic settings are the one namespace that the protocol itself reads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError, NoPermissionError, StoreCorruptError, StoreError
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketpy.seams import Storage

__all__ = ["FILE_NAME", "ORDER_TOPIC_CONFIG", "KVConfig"]

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
FILE_NAME = "kvConfig.json"
MAX_ENTRIES = 10_000
MAX_SIZE = 4 * 1024 * 1024
"""Characters of all entries: the whole table is written with every change."""


class KVConfig:
    """Namespaces of key-value pairs; persisted after every change when a storage is given."""

    def __init__(self, storage: Storage | None = None, path: str = FILE_NAME) -> None:
        self._storage = storage
        self._path = path
        self._table: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Read what was persisted, if anything was.

        Raises:
            StoreCorruptError: the file is there and is not what was written.
        """
        if self._storage is None or not self._storage.exists(self._path):
            return
        where = self._storage.describe(self._path)
        try:
            table = json.loads(self._storage.read_bytes(self._path))["configTable"]
            self._table = {str(name): {str(k): str(v) for k, v in pairs.items()} for name, pairs in table.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise StoreCorruptError(f"{where} is not a key-value file: repair it or move it away", path=where) from exc
        except OSError as exc:
            raise StoreError(f"{where} cannot be read: {exc.strerror}") from exc

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """A copy of one namespace, None when there is none."""
        pairs = self._table.get(namespace)
        return None if pairs is None else dict(pairs)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.

        Raises:
            NoPermissionError: the table is full.
            ConfigError: a name is empty.
            StoreError: the file cannot be written; the old value stays.
        """
        if not namespace or not key:
            raise ConfigError("a key-value entry needs a namespace and a key")
        pairs = self._table.get(namespace, {})
        table = {**self._table, namespace: {**pairs, key: value}}
        if key not in pairs and sum(map(len, table.values())) > MAX_ENTRIES:
            raise NoPermissionError(
                ResponseCode.NO_PERMISSION, f"no more than {MAX_ENTRIES} key-value entries are kept"
            )
        if _size(table) > max(MAX_SIZE, _size(self._table)):
            raise NoPermissionError(
                ResponseCode.NO_PERMISSION, f"no more than {MAX_SIZE} characters of key-value entries are kept"
            )
        self._replace(table)

    def delete(self, namespace: str, key: str) -> None:
        """Remove a value; fine when there is none.

        Raises:
            StoreError: the file cannot be written; the value stays.
        """
        pairs = dict(self._table.get(namespace, {}))
        if pairs.pop(key, None) is None:
            return
        others = {name: each for name, each in self._table.items() if name != namespace}
        self._replace({**others, namespace: pairs} if pairs else others)

    def _replace(self, table: dict[str, dict[str, str]]) -> None:
        """Make it the table once it is on the disk: what could not be written does not count."""
        self._persist(table)
        self._table = table

    def _persist(self, table: dict[str, dict[str, str]]) -> None:
        if self._storage is None:
            return
        data = json.dumps({"configTable": table}, indent=1, ensure_ascii=False).encode()
        try:
            self._storage.write_bytes_atomic(self._path, data)
        except OSError as exc:
            raise StoreError(f"{self._storage.describe(self._path)} cannot be written: {exc.strerror}") from exc


def _size(table: Mapping[str, Mapping[str, str]]) -> int:
    return sum(len(name) + sum(len(key) + len(value) for key, value in pairs.items()) for name, pairs in table.items())
