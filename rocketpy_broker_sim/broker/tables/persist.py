"""One file of a broker's configuration: fastjson's pretty form, replaced at once, the version before it kept as .bak.

Apache's broker reads and writes the same files. A file that cannot be read is replaced by its .bak; when neither can
be read the broker does not start, and nothing is deleted. Plays the part of ConfigManager.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from io import BytesIO
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from rocketpy.errors import RemoteProtocolError, StoreCorruptError, StoreError
from rocketpy.logs import get_logger
from rocketpy.wire.limits import WireLimits
from rocketpy.wire.steps import run_steps

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = [
    "FILE_LIMITS",
    "ConfigFile",
    "Entries",
    "StoredTable",
    "Written",
    "pretty_pieces",
    "pretty_steps",
    "pretty_text",
]

log = get_logger(__name__)

FILE_LIMITS = WireLimits(max_json_body=1 << 30, max_body_members=100_000_000)
"""Our own files may be larger than anything that a peer may send."""
_FOLDER = "config"
_STRETCH = 16
"""Members of an object that one step writes."""
_Value = TypeVar("_Value")


class ConfigFile:
    """Reads and replaces one file. Blocking: the broker calls `save` where it may block."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._path = f"{_FOLDER}/{name}"
        self._backup = f"{_FOLDER}/{name}.bak"
        # A file that could not be read must not push out the .bak that could.
        self._keep_backup = False
        self._folder_kept = False

    def load(self, read: Callable[[bytes], _Value]) -> _Value | None:
        """The file as `read` understands it, or its .bak; None when there is neither.

        Raises:
            StoreCorruptError: there is a file, and neither it nor its .bak can be read.
            StoreError: the disk cannot be read.
        """
        problem: str | None = None
        for path in (self._path, self._backup):
            try:
                if not self._storage.exists(path):
                    continue
                found = read(self._storage.read_bytes(path))
            except RemoteProtocolError as exc:
                problem = problem or str(exc)
                log.warning("%s cannot be read: %s", self._storage.describe(path), exc)
                continue
            except OSError as exc:
                raise StoreError(f"cannot read {self._storage.describe(path)}: {exc}") from exc
            if path == self._backup:
                log.warning("going on with %s", self._storage.describe(path))
                self._keep_backup = True
            return found
        if problem is None:
            return None
        where = self._storage.describe(self._path)
        raise StoreCorruptError(
            f"neither {where} nor its .bak can be read ({problem}); nothing was changed. "
            "Put back a copy, or move both away to start with an empty table",
            path=where,
        )

    def _keep_folder(self) -> None:
        """Let a new folder reach the disk, once; also one that was made before a failure or a crash."""
        if not self._folder_kept:
            self._storage.make_dir(_FOLDER)
            self._storage.sync_dir("")
            self._folder_kept = True

    def save(self, data: bytes | list[bytes]) -> None:
        """Replace the file; what it held becomes its .bak, when the new content is on the disk and not before.

        Args:
            data: the content, or its pieces.

        Raises:
            StoreError: the disk refused; the file or its .bak is still whole.
        """
        try:
            self._keep_folder()
            self._storage.write_bytes_atomic(self._path, data, backup="" if self._keep_backup else self._backup)
        except OSError as exc:
            raise StoreError(f"cannot write {self._storage.describe(self._path)}: {exc}") from exc
        self._keep_backup = False


class StoredTable(ABC):
    """A table that survives restarts.

    Attributes:
        changed: Whether it differs from its file.
    """

    file_name: ClassVar[str]

    def __init__(self, storage: Storage) -> None:
        self.file = ConfigFile(storage, self.file_name)
        self.changed = False
        self._wakes: list[Callable[[], object]] = []

    @abstractmethod
    def encode_steps(self) -> Generator[None, None, bytes | list[bytes]]:
        """The content of the file, or its pieces, in steps. What changes after the first step may be in it or not."""

    def encode(self) -> bytes:
        """The content of the file, at once."""
        found = run_steps(self.encode_steps())
        return found if isinstance(found, bytes) else b"".join(found)

    @abstractmethod
    def decode(self, data: bytes) -> None:
        """Take over the content of a file.

        Raises:
            RemoteProtocolError: the bytes are no such file.
        """

    def load(self) -> bool:
        """Take over the file; whether there was one.

        Raises:
            StoreCorruptError: neither the file nor its .bak can be read.
        """

        def read(data: bytes) -> bool:
            self.decode(data)
            return True

        return self.file.load(read) or False

    def persist(self) -> None:
        """Write the file when something changed.

        Raises:
            StoreError: the disk refused; the change is kept for the next time.
        """
        if self.changed:
            self.file.save(self.encode())
            self.changed = False

    def on_change(self, wake: Callable[[], object]) -> None:
        """Call a plain function, from now on, after each change that should reach the disk soon."""
        self._wakes.append(wake)

    def mark_changed(self) -> None:
        """Have the table written soon."""
        self.changed = True
        for wake in self._wakes:
            wake()


# --- the pretty form -----------------------------------------------------------------------------------


class Entries(NamedTuple):
    """Members of an object that are worked out one by one as they are written."""

    pairs: Iterable[tuple[str | int, Any]]
    """(key, value) of each member, in the order in which they are written."""


class Written(str):
    """A value that is in the pretty form already, in the place where it stands."""

    __slots__ = ()


def pretty_steps(members: Mapping[str, Any]) -> Generator[None, None, bytes]:
    """An object in the form in which Apache's broker writes it, in steps.

    It has tabs, a line for each member, and no blank after a colon. As in fastjson, integer keys are bare and stand on
    one line, and so do the elements of an array. Large objects in it are best given as `Entries`, or are copied first.
    """
    found = BytesIO()  # it hands out what it holds without a copy, which a large table would feel
    yield from _write_members(members, found.write)
    return found.getvalue()


def pretty_pieces(members: Mapping[str, Any]) -> Generator[None, None, list[bytes]]:
    """The same in pieces, for tables that may be so large that a single buffer takes long to move when it grows."""
    found: list[bytes] = []
    yield from _write_members(members, found.append)
    return found


def _write_members(members: Mapping[str, Any], write: Callable[[bytes], object]) -> Generator[None, None, None]:
    parts: list[str] = []
    yield from _write_steps(members.items(), parts, "\n", write)
    write("".join(parts).encode())
    yield


def _write_steps(
    pairs: Iterable[tuple[str | int, Any]], parts: list[str], line: str, write: Callable[[bytes], object]
) -> Generator[None, None, None]:
    """Write an object, `_STRETCH` members a step; what is written is handed to `write` with each."""
    separator = "{"
    inner = line + "\t"
    for number, (key, item) in enumerate(pairs, 1):
        parts.append(f"{separator}{key}:" if isinstance(key, int) else f"{separator}{inner}{encode_basestring(key)}:")
        if isinstance(item, Entries):
            yield from _write_steps(item.pairs, parts, inner, write)
        elif isinstance(item, dict) and len(item) > _STRETCH:
            yield from _write_steps(item.items(), parts, inner, write)
        elif isinstance(item, list) and len(item) > _STRETCH:
            yield from _write_array_steps(item, parts, inner, write)
        elif isinstance(item, Written):
            parts.append(item)
        else:
            _write(item, parts, inner)
        separator = ","
        if number % _STRETCH == 0:
            write("".join(parts).encode())
            parts.clear()
            yield
    parts.append("{}" if separator == "{" else line + "}")


def _write_array_steps(
    items: list[Any], parts: list[str], line: str, write: Callable[[bytes], object]
) -> Generator[None, None, None]:
    """The same with an array."""
    separator = "["
    for number, item in enumerate(items, 1):
        parts.append(separator)
        _write(item, parts, line + "\t")
        separator = ","
        if number % _STRETCH == 0:
            write("".join(parts).encode())
            parts.clear()
            yield
    parts.append("[]" if separator == "[" else "]")


def pretty_text(value: Any) -> str:
    """An entry of a table in the pretty form: two objects are around it."""
    parts: list[str] = []
    _write(value, parts, "\n\t\t")
    return "".join(parts)


def _write(value: Any, parts: list[str], line: str) -> None:
    if isinstance(value, dict):
        _write_object(value, parts, line)
    elif isinstance(value, (list, tuple)):
        _write_array(value, parts, line)
    elif isinstance(value, str):
        parts.append(encode_basestring(value))
    elif value is None or isinstance(value, bool):
        parts.append({None: "null", True: "true", False: "false"}[value])
    else:
        parts.append(repr(value))


def _write_object(value: dict[Any, Any], parts: list[str], line: str) -> None:
    separator = "{"
    inner = line + "\t"
    for key, item in value.items():
        parts.append(f"{separator}{key}:" if isinstance(key, int) else f"{separator}{inner}{encode_basestring(key)}:")
        _write(item, parts, inner)
        separator = ","
    parts.append("{}" if separator == "{" else line + "}")


def _write_array(value: list[Any] | tuple[Any, ...], parts: list[str], line: str) -> None:
    separator = "["
    for item in value:
        parts.append(separator)
        _write(item, parts, line + "\t")
        separator = ","
    parts.append("[]" if separator == "[" else "]")
