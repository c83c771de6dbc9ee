"""What a broker writes no other one writes: its directory, and the folders that may lie elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rocketpy.errors import StoreError
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all


def rooted(tmp_path, name: str) -> RealStorage:
    return RealStorage(tmp_path / name, mounts={"commitlog": tmp_path / "shared"})


def test_two_brokers_with_one_commit_log_do_not_both_start(tmp_path):
    """Their directories are two, their storePathCommitLog is one."""
    first = open_store(rooted(tmp_path, "a"))
    put_all(first, [message(b"kept")])
    before = sorted(os.listdir(tmp_path / "shared"))
    with pytest.raises(StoreError, match=rf"{tmp_path}/shared is in use by another broker: .*\(storePathCommitLog\)"):
        open_store(rooted(tmp_path, "b"))
    assert sorted(os.listdir(tmp_path / "shared")) == before  # Apache's broker takes no other file there
    assert all(name.isdigit() for name in before)
    assert bodies(first) == [b"kept"]
    first.close()
    again = open_store(rooted(tmp_path, "a"))  # and the one that was refused holds nothing
    again.close()


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue"])
def test_folders_that_are_links_to_one_place_count_too(tmp_path, folder):
    (tmp_path / "shared").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / folder).symlink_to(tmp_path / "shared")
    first = open_store(RealStorage(tmp_path / "a"))
    with pytest.raises(StoreError, match=f"{folder} is in use by another broker"):
        open_store(RealStorage(tmp_path / "b"))
    first.close()
    open_store(RealStorage(tmp_path / "b")).close()


def test_another_process_holds_the_log_until_it_ends(tmp_path):
    program = f"""
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.store.helpers import open_store
store = open_store(RealStorage({str(tmp_path / "a")!r}, mounts={{"commitlog": {str(tmp_path / "shared")!r}}}))
print("open", flush=True)
input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=os.getcwd()
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(StoreError, match=r"shared is in use by another broker"):
            open_store(rooted(tmp_path, "b"))
    finally:
        process.kill()
        process.communicate()
    open_store(rooted(tmp_path, "b")).close()


def test_a_file_system_without_locks_of_folders_is_none_the_worse(tmp_path, monkeypatch):
    import errno
    import fcntl

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    store = open_store(rooted(tmp_path, "a"))
    put_all(store, [message(b"kept")])
    store.close()
