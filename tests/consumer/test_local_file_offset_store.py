"""Offsets in a file: Java's format and place, whole at any moment, and clear words about what cannot be used."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.offsets import small_files
from rocketpy.consumer.offsets.local_file_offset_store import LocalFileOffsetStore, offset_file
from rocketpy.consumer.offsets.offset_storage import OffsetStorage
from rocketpy.consumer.offsets.small_files import SmallFiles
from rocketpy.errors import ConfigError, OffsetStoreError
from rocketpy.message import MessageQueue

ONE, TWO = MessageQueue("Orders", "broker-a", 0), MessageQueue("Orders", "broker-a", 1)

JAVAS = """{
	"offsetTable":{{
			"brokerName":"broker-a",
			"queueId":1,
			"topic":"Orders"
		}:42,{
			"brokerName":"broker-a",
			"queueId":0,
			"topic":"Orders"
		}:7
	}
}"""
"""As fastjson writes it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a" / "offsets.json"


def opened(path: Path) -> LocalFileOffsetStore:
    store = LocalFileOffsetStore(path)
    store.open()
    return store


def written(path: Path, *tables: dict[MessageQueue, int]) -> None:
    store = opened(path)
    for table in tables:
        store.write(table)
    store.close()


def test_BC2_offsets_are_updated_kept_and_read(path: Path) -> None:
    store = opened(path)
    assert isinstance(store, OffsetStorage)
    assert store.read(ONE) is None
    store.write({ONE: 5})
    store.write({TWO: 6})
    store.write({ONE: 3})  # a caller may go back
    assert (store.read(ONE), store.read(TWO)) == (3, 6)
    store.close()
    again = opened(path)
    assert (again.read(ONE), again.read(TWO)) == (3, 6)
    again.close()


def test_BC2_the_file_is_javas_both_ways(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(JAVAS)
    store = opened(path)
    assert (store.read(ONE), store.read(TWO)) == (7, 42)
    store.write({ONE: 8})
    store.close()
    text = path.read_text()
    assert text.startswith('{"offsetTable":{{"brokerName":"broker-a","queueId":')
    assert '{"brokerName":"broker-a","queueId":0,"topic":"Orders"}:8' in text
    assert '{"brokerName":"broker-a","queueId":1,"topic":"Orders"}:42' in text
    assert (path.parent / "offsets.json.bak").read_text() == JAVAS


@pytest.mark.parametrize(
    ("fields", "folder"),
    [
        ({}, "10.0.0.9@DEFAULT"),
        ({"instance_name": "eu-1"}, "10.0.0.9@eu-1"),
        ({"client_ip": "1.2.3.4", "instance_name": "eu-1", "unit_name": "u"}, "1.2.3.4@eu-1@u"),
    ],
)
def test_BC2_the_file_lies_where_java_looks_for_it(fields: dict[str, Any], folder: str, tmp_path: Path) -> None:
    config = PushConsumerConfig(group="billing", local_offset_store_dir=tmp_path, **fields)
    assert offset_file(config, "10.0.0.9") == tmp_path / folder / "billing" / "offsets.json"
    assert pickle.loads(pickle.dumps(config)) == config


def test_BC2_without_a_folder_in_the_settings_it_is_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/h"))
    config = PushConsumerConfig(group="g", client_ip="1.2.3.4")
    assert str(offset_file(config, "x")) == "/h/.rocketmq_offsets/1.2.3.4@DEFAULT/g/offsets.json"

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ConfigError, match="set local_offset_store_dir"):
        offset_file(config, "x")


def test_BC2_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    config = PushConsumerConfig(group="g", instance_name="../../up", local_offset_store_dir=tmp_path)
    with pytest.raises(ConfigError, match="name a folder"):
        offset_file(config, "1.2.3.4")


def test_BC2_whatever_byte_java_was_killed_at_the_bak_counts(path: Path) -> None:
    """Java writes in place, the .bak first."""
    written(path, {ONE: 1}, {ONE: 2})
    whole, bak = path.read_bytes(), path.with_name("offsets.json.bak")
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        store = opened(path)
        assert store.read(ONE) == 1, size
        store.close()
    path.unlink()
    store = opened(path)
    assert store.read(ONE) == 1
    store.write({ONE: 3})
    store.close()
    assert b":1}" in bak.read_bytes()  # it is what was read, so it stays until there is a file besides


class Killed(BaseException):
    """The process is gone."""


def test_BC2_killed_at_any_step_the_file_or_the_bak_is_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    def at_step(limit: int, function: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == limit:
                raise Killed
            return function(*arguments)

        return counted

    for limit in range(1, 20):
        written(path, {ONE: 10 * limit})
        store, steps = opened(path), 0
        with monkeypatch.context() as patched:
            patched.setattr(small_files.os, "fsync", at_step(limit, os.fsync))
            patched.setattr(Path, "replace", at_step(limit, Path.replace))
            try:
                store.write({ONE: 10 * limit + 1})
                ended = True
            except Killed:
                ended = False
        store.close()
        found = opened(path)
        assert found.read(ONE) in ((10 * limit + 1,) if ended else (10 * limit, 10 * limit + 1))
        found.close()
        if ended:
            assert limit == 5  # two flushes and two renames
            return
    raise AssertionError("it never ends")


def test_BC2_an_empty_file_counts_as_none(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"")
    store = opened(path)
    assert store.read(ONE) is None
    store.close()


def test_BC2_a_file_and_a_bak_that_are_damaged_are_left_alone(path: Path) -> None:
    written(path, {ONE: 1}, {ONE: 2})
    bak = path.with_name("offsets.json.bak")
    for each in (path, bak):
        each.write_bytes(b'{"offsetTable":{{"brok')
    with pytest.raises(OffsetStoreError, match=r"neither .*json nor its .bak can be read .* nothing was changed"):
        opened(path)
    bak.unlink()
    with pytest.raises(OffsetStoreError, match="nothing was changed"):
        opened(path)
    assert path.read_bytes() == b'{"offsetTable":{{"brok'
    path.unlink()
    opened(path).close()  # and nobody holds the lock


@pytest.mark.parametrize(
    "text", [b"[]", b"7", b'{"offsetTable":7}', b'{"offsetTable":{"a":1}}', b"\xff\xfe", b"{" * 500]
)
def test_BC2_a_file_that_holds_something_else_is_damaged(path: Path, text: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(text)
    with pytest.raises(OffsetStoreError, match="nothing was changed"):
        opened(path)


_QUEUE = '{"brokerName":"broker-a","queueId":0,"topic":"Orders"}'


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"offsetTable":null}',
        '{"offsettable":{}}',
        f'{{"offsetTable":{{{_QUEUE}:-5}}}}',
        '{"x":{"offsetTable":1}}',
    ],
)
def test_BC2_a_file_without_offsets_is_damaged_and_does_not_count_as_none(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    store = LocalFileOffsetStore(path)
    with pytest.raises(OffsetStoreError, match=r"neither .* nor its \.bak can be read"):
        store.open()
    assert path.read_text() == text
    path.write_text(f'{{"offsetTable":{{{_QUEUE}:5}}}}')
    store.open()
    assert store.read(MessageQueue("Orders", "broker-a", 0)) == 5
    store.close()


def test_BC2_a_folder_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OffsetStoreError, match="set local_offset_store_dir to a writable folder"):
        opened(tmp_path / "file" / "offsets.json")


def test_BC2_a_disk_that_refuses_is_told_and_keeps_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(path, {ONE: 1})
    store = opened(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(small_files.os, "fsync", full)
        with pytest.raises(OffsetStoreError, match="No space left"):
            store.write({ONE: 2})
    assert store.read(ONE) == 1
    store.write({TWO: 3})
    store.close()
    again = opened(path)
    assert (again.read(ONE), again.read(TWO)) == (1, 3)
    again.close()


def test_two_consumers_never_write_the_same_file(path: Path) -> None:
    store = opened(path)
    with pytest.raises(OffsetStoreError, match=r"give each consumer .* its own instance_name"):
        opened(path)
    store.close()
    opened(path).close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_nor_do_two_processes(path: Path) -> None:
    store = opened(path)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            opened(path)
        except OffsetStoreError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.write({ONE: 1})
    store.close()
    files = SmallFiles(path.parent)
    files.lock("offsets.json.lock")()
