"""What a store directory consists of: its log, its queues, its index files, and the sizes they were made with.

Sizes come from settings when there are any; otherwise from the files themselves, of which all but a torn last one have
the size that was configured. A directory that is no store, or one of a kind that keeps its messages in another way, is
refused by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.config.store import UNIT_SIZE
from rocketpy_broker_sim.store.inspect.rows import FileRow, OpenFiles, StoreFile, find_files, translated
from rocketpy_broker_sim.store.log import commit_log
from rocketpy_broker_sim.store.queue import consume_queue

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["ABORT", "INDEX", "QueueKey", "StoreLayout", "detected_size", "open_layout"]

ABORT = "abort"
INDEX = "index"
INDEX_NAME_LENGTH = 17
DEFAULTS = MessageStoreConfig()
QueueKey = tuple[str, int]

# Folders that stores of another kind have, by what such a store is.
_FOREIGN = {
    "consumequeue_r": "its consume queues are kept in RocksDB (storeType=defaultRocksDB)",
    "consumequeue_rocksdb": "its consume queues are kept in RocksDB (storeType=defaultRocksDB)",
    "rocksdbstore": "its messages are kept in RocksDB (storeType=defaultRocksDB)",
    "dledger-": "its log is a DLedger log (enableDLegerCommitLog)",
}


class StoreLayout:
    """A store as it lies there.

    Attributes:
        storage: Where it lies.
        opened: Reads its files.
        config: The settings of its broker, or Java's defaults with the sizes that were found.
        has_settings: Whether they are its broker's.
        log: The commit log.
        queues: A row of files for every queue, by topic and number.
        index: Names of the index files, oldest first.
        unclean: Whether its broker runs or did not stop in order.
    """

    def __init__(self, storage: Storage, config: MessageStoreConfig | None) -> None:
        self.storage = storage
        self.opened = OpenFiles(storage)
        with translated(storage, ABORT):
            self.unclean = storage.exists(ABORT)  # before the files: a broker that stops meanwhile leaves no gap
        self.has_settings = config is not None
        self.config = MessageStoreConfig() if config is None else config
        files = find_files(self.opened, commit_log.FOLDER)
        size = config.mapped_file_size_commit_log if config else detected_size(files)
        self.log = FileRow(self.opened, commit_log.FOLDER, size or DEFAULTS.mapped_file_size_commit_log, files)
        self.queues = self._find_queues(config)
        self.index = self._find_index()

    def _find_queues(self, config: MessageStoreConfig | None) -> dict[QueueKey, FileRow]:
        found = {
            (topic, int(name)): find_files(self.opened, f"{consume_queue.FOLDER}/{topic}/{name}")
            for topic in self._folders(consume_queue.FOLDER)
            for name in self._folders(f"{consume_queue.FOLDER}/{topic}")
            if name.isascii() and name.isdigit()
        }
        usual = detected_size([file for files in found.values() for file in files], unit=UNIT_SIZE)
        size = config.mapped_file_size_consume_queue if config else usual
        size = size or DEFAULTS.mapped_file_size_consume_queue
        return {
            key: FileRow(self.opened, f"{consume_queue.FOLDER}/{key[0]}/{key[1]}", size, files)
            for key, files in sorted(found.items())
        }

    def _folders(self, path: str) -> list[str]:
        with translated(self.storage, path):
            return [name for name in self.storage.list(path) if self.storage.is_dir(f"{path}/{name}")]

    def _find_index(self) -> list[str]:
        with translated(self.storage, INDEX):
            names = self.storage.list(INDEX)
        return [name for name in names if len(name) == INDEX_NAME_LENGTH and name.isascii() and name.isdigit()]

    def close(self) -> None:
        """Close its files."""
        self.opened.close()


def detected_size(files: Sequence[StoreFile], *, unit: int = 1) -> int:
    """The size that most files have and their positions agree with; 0 without files.

    Args:
        files: Files of one or more rows.
        unit: What a size must be a multiple of.
    """
    sizes = Counter(file.size for file in files if file.size and file.size % unit == 0)
    agreeing = {size: sum(not file.start % size for file in files) for size in sizes}
    return max(sizes, key=lambda size: (agreeing[size], sizes[size], size), default=0)


def open_layout(storage: Storage, config: MessageStoreConfig | None = None) -> StoreLayout:
    """Look at what a directory holds.

    Args:
        storage: The directory.
        config: The settings of its broker; sizes are detected without them.

    Raises:
        ConfigError: This is no store, or one of a kind that is not read here.
        StoreError: It cannot be read.
    """
    where = storage.describe("")
    with translated(storage, ""):
        names = storage.list("") if storage.is_dir("") else None
    if names is None:
        raise ConfigError(f"{where} is not a directory: name the directory of a store (storePathRootDir)")
    for name in names:
        kind = next((text for prefix, text in _FOREIGN.items() if name.lower().startswith(prefix)), None)
        if kind is not None:
            raise ConfigError(f"{where} is a store of another kind: {kind}, which is not read here")
    if not {commit_log.FOLDER, consume_queue.FOLDER} & {*names} and not storage.is_dir(commit_log.FOLDER):
        hint = _hint(storage, names)
        raise ConfigError(f"{where} is not a store: it has no folder {commit_log.FOLDER}; {hint}")
    return StoreLayout(storage, config)


def _hint(storage: Storage, names: list[str]) -> str:
    """Where the store may be that was meant."""
    if any(storage.is_dir(f"{name}/{commit_log.FOLDER}") for name in names):
        inner = next(name for name in names if storage.is_dir(f"{name}/{commit_log.FOLDER}"))
        return f"the folder {inner!r} in it has one, name that"
    if any(len(name) == 20 and name.isdigit() for name in names):
        return "this looks like a folder within a store, name the one above it"
    return "name the directory of a store (storePathRootDir)"
