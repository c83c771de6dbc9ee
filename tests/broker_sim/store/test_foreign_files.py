"""What stands in the place of a store's files: links, folders, files of others. Each is refused by path and offset."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import GetMessageStatus
from rocketpy_broker_sim.store.queue.consume_queue import UNIT
from tests.broker_sim.store.helpers import bodies, message, put_all, small_config


def opened(root: Path) -> MessageStore:
    store = MessageStore(RealStorage(root), small_config())
    store.load()
    return store


@pytest.fixture
def root(tmp_path) -> Path:
    store = opened(tmp_path / "s")
    put_all(store, [message(b"%d" % n * 100) for n in range(40)])
    store.close()
    return tmp_path / "s"


def refused(root: Path) -> StoreCorruptError:
    with pytest.raises(StoreCorruptError) as caught:
        opened(root)
    return caught.value


def later_than_the_tick_of_the_last_stop(folder: Path) -> None:
    """The clock of a file system moves some milliseconds at a time, and a folder counts as changed by its time."""
    changed = folder.stat()
    os.utime(folder, ns=(changed.st_atime_ns, changed.st_mtime_ns + 10**9))


@pytest.mark.parametrize("pattern", ["commitlog/*", "consumequeue/Orders/0/*"])
def test_threat_M12_links_in_the_place_of_files_are_refused(root, tmp_path, pattern):
    path = min(root.glob(pattern))
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    later_than_the_tick_of_the_last_stop(path.parent)
    before = elsewhere.read_bytes()
    error = refused(root)
    assert (error.path, error.offset) == (str(path.relative_to(root)), 0)
    assert "is not a regular file but a link" in str(error)
    assert elsewhere.read_bytes() == before


def test_folders_may_be_links(root, tmp_path):
    (root / "commitlog").rename(tmp_path / "log")
    (root / "commitlog").symlink_to(tmp_path / "log")
    store = opened(root)
    assert len(bodies(store)) == 40
    store.close()


def test_threat_M12_folders_in_the_place_of_files_are_refused(root):
    path = min(root.glob("commitlog/*"))
    path.unlink()
    path.mkdir()
    error = refused(root)
    assert (error.path, error.offset) == (str(path.relative_to(root)), 0)


def test_threat_M12_a_log_of_a_newer_format_is_refused(root):
    """Its records have another magic number, at the places where ours had been."""
    for path in root.glob("commitlog/*"):
        path.write_bytes(path.read_bytes().replace(b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xc7"))
    before = {path: path.read_bytes() for path in root.glob("commitlog/*")}
    error = refused(root)
    assert error.path.startswith("commitlog/")
    assert error.offset is not None
    assert {path: path.read_bytes() for path in before} == before


def test_threat_M12_foreign_bytes_in_the_place_of_the_log_are_refused(root):
    for path in root.glob("commitlog/*"):
        path.write_bytes((b"SQLite format 3\0" * 4096)[: path.stat().st_size])
    error = refused(root)
    assert error.path.startswith("commitlog/")


@pytest.mark.parametrize(
    "path",
    [
        "commitlog/" + "²" * 20,
        "index/" + "²" * 17,
        b"consumequeue/\xff\xfe/0/",
        "consumequeue/.snapshot copy/0/",
        "consumequeue/Orders/00/",
        "consumequeue/Orders/4294967296/",
        "consumequeue/a file",
    ],
    ids=["log", "index", "bytes", "spaces", "zeros", "number", "file"],
)
def test_threat_M12_what_others_keep_in_the_folders_is_left_alone(root, path):
    """Names that look like ours to a careless reader: ``isdigit`` holds for a superscript two."""
    foreign = os.path.join(os.fsencode(root), os.fsencode(path))
    if foreign.endswith(b"/"):
        os.makedirs(foreign)
    else:
        Path(os.fsdecode(foreign)).parent.mkdir(exist_ok=True)
        Path(os.fsdecode(foreign)).write_bytes(bytes(4096))
    store = opened(root)
    assert store.reads.topics() == {"Orders"}
    assert store.reads.queue_ids("Orders") == [0]
    assert len(bodies(store)) == 40
    store.close()
    assert os.path.exists(foreign)


def test_threat_M12_a_log_that_begins_behind_all_positions_is_refused(root):
    for path in root.glob("commitlog/*"):
        path.unlink()
    (root / "commitlog" / f"{4096 * 10**16:020d}").write_bytes(bytes(4096))
    assert refused(root).offset == 0


@pytest.mark.parametrize("size", [0, 30, 100])
def test_threat_M12_a_queue_file_that_was_cut_off_is_told_when_it_is_read(root, size):
    """After a clean stop the files of the queues are not looked at before somebody reads them."""
    path = min(root.glob("consumequeue/Orders/0/*"))
    os.truncate(path, size)
    store = opened(root)
    offset = size // 20
    with pytest.raises(StoreCorruptError, match=f"ends at {size} of 200 bytes") as caught:
        store.reads.get("Orders", 0, offset, 32)
    assert (caught.value.path, caught.value.offset) == (str(path.relative_to(root)), size)
    with pytest.raises(StoreCorruptError):
        store.reads.store_time("Orders", 0, offset)
    assert store.reads.get("Orders", 0, 10, 1).status is GetMessageStatus.FOUND
    store.close()


def test_threat_M12_a_unit_that_leads_to_the_last_bytes_of_a_file_has_no_time(root):
    path = min(root.glob("consumequeue/Orders/0/*"))
    with path.open("r+b") as file:
        file.write(UNIT.pack(4096 - 6, 5, 0))
    store = opened(root)
    assert store.reads.store_time("Orders", 0, 0) == -1
    assert store.reads.store_time("Orders", 0, 1) > 0
    store.close()
