"""What stands in the place of a store's files: links, folders, files of others. Each is refused by path and offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.disk import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
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


@pytest.mark.parametrize("pattern", ["commitlog/*", "consumequeue/Orders/0/*"])
def test_threat_M12_links_in_the_place_of_files_are_refused(root, tmp_path, pattern):
    path = min(root.glob(pattern))
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    error = refused(root)
    assert (error.path, error.offset) == (str(path.relative_to(root)), 0)
    assert "is no regular file but a link" in str(error)
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
