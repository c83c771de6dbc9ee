"""Offsets in a file of this host, as Java's broadcasting consumers keep them.

Path and format are Java's, JSON with objects as keys, so clients of both languages can read the file. Each write
replaces the file as a whole and keeps the previous one as its .bak, so a power loss at any byte leaves one of the two
intact. If the file cannot be read, its .bak is used; if neither can be read, nothing is changed and the consumer does
not start. Unlike Java's, the file is locked while it is in use: two consumers that write the same file would overwrite
each other's offsets. Plays the part of LocalFileOffsetStore and OffsetSerializeWrapper.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rocketpy.consumer.offsets.small_files import SmallFiles
from rocketpy.errors import ConfigError, OffsetStoreError, RemoteProtocolError
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.offsets import OffsetSerializeWrapper
from rocketpy.wire.limits import WireLimits

if TYPE_CHECKING:
    import os

    from rocketpy.config.sharing import SharingConfig
    from rocketpy.message import MessageQueue

__all__ = ["LocalFileOffsetStore", "offset_file"]

logger = get_logger(__name__)

_LIMITS = WireLimits(max_json_body=1 << 30, max_body_members=10_000_000)
"""A file of this host may be larger than anything that a peer may send."""
_TABLE = re.compile(rb"""["']?offsetTable["']?\s*:\s*\{""")


class _Files(Protocol):
    """The methods of `rocketpy.seams.Storage` that are used here."""

    def exists(self, path: str) -> bool: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_bytes_atomic(self, path: str, data: bytes, *, backup: str = "") -> None: ...

    def make_dir(self, path: str) -> None: ...

    def lock(self, path: str) -> Callable[[], None]: ...

    def describe(self, path: str) -> str: ...


def offset_file(config: SharingConfig, local_ip: str) -> Path:
    """The path at which Java keeps the offsets of a group: folder / address@instance[@unit] / group / offsets.json.

    The instance is "DEFAULT" if the settings name none, since the client id changes with every start.

    Raises:
        ConfigError: the settings do not give a usable path.
    """
    try:
        folder = config.local_offset_store_dir or Path.home() / ".rocketmq_offsets"
    except RuntimeError as error:
        raise ConfigError(f"this user has no home folder: set local_offset_store_dir ({error})") from error
    parts = [config.client_ip or local_ip, config.instance_name or "DEFAULT", *filter(None, [config.unit_name])]
    client = "@".join(parts)
    if Path(client).name != client:
        raise ConfigError(f"client_ip, instance_name and unit_name name a folder, which cannot be {client!r}")
    return Path(folder) / client / config.group / "offsets.json"


class LocalFileOffsetStore:
    """Keeps offsets in a file, locked while in use, in the format of Java's broadcasting consumers. Its methods block.

    Args:
        path: the file.
        files: how to access it, for tests.
    """

    def __init__(self, path: str | os.PathLike[str], *, files: Any = None) -> None:
        self.path = Path(path)
        self._files: _Files = files if files is not None else SmallFiles(self.path.parent)
        self._name = self.path.name
        self._table: dict[MessageQueue, int] = {}
        self._guard = threading.Lock()
        self._release: Callable[[], None] | None = None
        self._keeps_backup = False
        """Whether the next write must keep the .bak, because it is what was read."""

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<LocalFileOffsetStore {self.path}>"

    def open(self) -> None:
        """Lock the file and read it.

        Raises:
            OffsetStoreError: the folder is not writable, another consumer uses the file, or it cannot be read.
        """
        with self._guard:
            try:
                self._files.make_dir("")
                self._release = self._files.lock(self._name + ".lock")
            except BlockingIOError as error:
                raise OffsetStoreError(
                    f"another consumer keeps its offsets in {self._where}: give each consumer of a group on this host "
                    "its own instance_name, the same at every start"
                ) from error
            except OSError as error:
                raise OffsetStoreError(
                    f"offsets cannot be kept in {self._where} ({error}): set local_offset_store_dir to a writable "
                    "folder"
                ) from error
            try:
                self._table = self._load()
            except BaseException:  # Ctrl-C too: a lock that stays would make the next start fail
                self._let_go()
                raise

    def close(self) -> None:
        """Unlock the file."""
        with self._guard:
            self._let_go()

    def read(self, queue: MessageQueue) -> int | None:
        """The offset of a queue, None if the file has none."""
        with self._guard:
            return self._table.get(queue)

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Write these offsets to the file; others stay as they are.

        Raises:
            OffsetStoreError: an I/O error; the file or its .bak is still intact.
        """
        with self._guard:
            table = {**self._table, **offsets}
            data = OffsetSerializeWrapper(offset_table=table).encode()
            backup = "" if self._keeps_backup else self._name + ".bak"
            try:
                self._files.write_bytes_atomic(self._name, data, backup=backup)
            except OSError as error:
                raise OffsetStoreError(f"cannot write the offsets to {self._where}: {error}") from error
            self._table = table
            self._keeps_backup = False

    @property
    def _where(self) -> str:
        return self._files.describe(self._name)

    def _let_go(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def _load(self) -> dict[MessageQueue, int]:
        """Read the file, or its .bak; no offsets if neither exists. An empty file counts as missing, as in Java."""
        problem: Exception | None = None
        for name in (self._name, self._name + ".bak"):
            try:
                data = self._files.read_bytes(name) if self._files.exists(name) else b""
                if not data:
                    continue
                table = _table_in(data)
            except (RemoteProtocolError, OSError) as error:
                problem = problem or error
                logger.warning("%s cannot be read: %s", self._files.describe(name), error)
                continue
            self._keeps_backup = name != self._name
            if self._keeps_backup:
                logger.warning("using %s instead", self._files.describe(name))
            return table
        if problem is None:
            return {}
        raise OffsetStoreError(
            f"neither {self._where} nor its .bak can be read ({problem}); nothing was changed. Put back a copy, or "
            "move both away to start where consume_from_where says"
        ) from problem


def _table_in(data: bytes) -> dict[MessageQueue, int]:
    """The offsets in a file. A file without an offset table is damaged; taking it for empty would skip messages.

    Raises:
        RemoteProtocolError: the file holds no valid offsets.
    """
    table = OffsetSerializeWrapper.decode(data, limits=_LIMITS).offset_table
    if not _TABLE.search(data):
        raise RemoteProtocolError("it has no offsetTable")
    negative = next((queue for queue, offset in table.items() if offset < 0), None)
    if negative is not None:
        raise RemoteProtocolError(f"the offset of {negative} is {table[negative]}")
    return table
