"""The simulated disk loses what had not reached it, and nothing else."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.crash.nodes import sectors_of
from tests.crash.sim_disk import PowerLoss, SimDisk


def written(disk: SimDisk, path: str, data: bytes) -> None:
    disk.open(path, create=True).pwrite(data, 0)


def synced(disk: SimDisk, path: str, data: bytes) -> None:
    """A file that is there for good, its folders too."""
    written(disk, path, data)
    disk.open(path).fdatasync()
    parts = path.split("/")[:-1]
    for count in range(len(parts) + 1):
        disk.sync_dir("/".join(parts[:count]))


def test_what_was_not_synced_may_be_lost_or_kept():
    disk = SimDisk()
    synced(disk, "a", b"old")
    disk.open("a").pwrite(b"new", 0)
    assert disk.left_none().files() == {"a": b"old"}
    assert disk.left_all().files() == {"a": b"new"}
    assert disk.read_bytes("a") == b"new"
    disk.open("a").fdatasync()
    assert disk.left_none().files() == {"a": b"new"}


def test_a_new_file_is_lost_with_its_name_though_its_bytes_were_synced():
    disk = SimDisk()
    written(disk, "d/x", b"data")
    disk.open("d/x").fdatasync()
    assert disk.left_none().files() == {}
    disk.sync_dir("d")
    assert disk.left_none().files() == {}, "nobody has synced the folder's own name"
    disk.sync_dir("")
    assert disk.left_none().files() == {"d/x": b"data"}


def test_a_folder_that_is_made_for_good_keeps_its_name():
    disk = SimDisk()
    disk.make_dir("d")
    assert disk.left_none().is_dir("d")


def test_names_removed_and_changed_come_back():
    disk = SimDisk()
    synced(disk, "a", b"1")
    synced(disk, "b", b"2")
    disk.unlink("a")
    disk.rename("b", "c")
    assert disk.left_none().files() == {"a": b"1", "b": b"2"}
    assert disk.left_all().files() == {"c": b"2"}
    found = {tuple(disk.left_some(Random(seed)).files()) for seed in range(60)}
    assert found == {("a", "b"), ("a", "c"), ("b",), ("c",)}, "a rename is done whole or not at all"


def test_a_file_is_replaced_at_once_by_the_real_disks_own_steps():
    disk = SimDisk()
    disk.write_bytes_atomic("a", b"1")
    assert disk.left_none().files() == {"a": b"1"}
    disk.record()
    disk.write_bytes_atomic("a", b"22")
    assert [entry[0] for entry in disk.journal or ()] == ["link", "resize", "write", "sync", "rename", "sync_dir"]
    for at in range(7):
        again = SimDisk()
        again.write_bytes_atomic("a", b"1")
        for entry in (disk.journal or [])[:at]:
            again.apply(*entry)
        for seed in range(20):
            assert again.left_some(Random(seed)).read_bytes("a") in ((b"22",) if at == 6 else (b"1", b"22"))


def test_sectors_are_kept_one_by_one():
    assert sectors_of(500, 30) == [(500, 512), (512, 530)]
    assert sectors_of(512, 1024) == [(512, 1024), (1024, 1536)]
    assert sectors_of(7, 0) == []
    disk = SimDisk()
    synced(disk, "a", bytes(1024))
    disk.open("a").pwrite(b"x" * 600, 212)
    left = {disk.left_some(Random(seed)).read_bytes("a") for seed in range(60)}
    parts = {(data[212:512].count(b"x"), data[512:812].count(b"x")) for data in left}
    assert parts == {(0, 0), (300, 0), (0, 300), (300, 300)}


def test_a_growth_may_stop_anywhere():
    disk = SimDisk()
    synced(disk, "a", b"")
    disk.open("a").truncate(100)
    sizes = {len(disk.left_some(Random(seed)).read_bytes("a")) for seed in range(200)}
    assert {0, 100} < sizes
    assert len(sizes) > 20


def test_pages_of_a_failed_sync_count_as_written_and_are_lost():
    disk = SimDisk()
    synced(disk, "a", b"old ")
    disk.open("a").pwrite(b"new ", 0)
    with disk.failing("sync"), pytest.raises(OSError, match="Input/output") as caught:
        disk.open("a").fdatasync()
    assert caught.value.errno == errno.EIO
    assert disk.read_bytes("a") == b"new "
    disk.open("a").fdatasync()
    assert disk.left_none().files() == {"a": b"old "}
    disk.open("a").pwrite(b"new ", 0)
    disk.open("a").fdatasync()
    assert disk.left_none().files() == {"a": b"new "}


def test_a_journal_makes_the_same_disk_again():
    disk = SimDisk()
    disk.record()
    synced(disk, "d/x", b"one")
    written(disk, "d/y", b"two")
    disk.rename("d/y", "d/z")
    disk.unlink("d/x")
    again = SimDisk()
    for entry in disk.journal or ():
        again.apply(*entry)
    assert again.left_all().files() == disk.files() == {"d/z": b"two"}
    assert again.left_none().files() == disk.left_none().files() == {"d/x": b"one"}
    assert [again.left_some(Random(n)).files() for n in range(9)] == [
        disk.left_some(Random(n)).files() for n in range(9)
    ]


def test_calls_fail_as_told():
    disk = SimDisk()
    written(disk, "a", b"abc")
    disk.fault = lambda what, path, size: 1 if what == "write" else None
    with pytest.raises(OSError, match="No space"):
        disk.open("a").pwrite(b"XYZ", 0)
    assert disk.read_bytes("a") == b"Xbc"

    def lose(what: str, path: str, size: int) -> None:
        raise PowerLoss

    disk.fault = lose
    for change in (lambda: disk.unlink("a"), lambda: disk.make_dir("d"), lambda: disk.open("b", create=True)):
        with pytest.raises(PowerLoss):
            change()
    assert disk.files() == {"a": b"Xbc"}


@pytest.mark.parametrize("path", ["../x", "a/../b", "/x", "a//b", "."])
def test_paths_stay_within(path):
    with pytest.raises(PermissionError):
        SimDisk().open(path, create=True)
