"""What is deleted when: decided from numbers alone."""

from __future__ import annotations

import errno
import time
from datetime import UTC, datetime

import pytest

from rocketpy.errors import ConfigError, StoreError
from rocketpy_broker_sim.config import read_broker_properties
from rocketpy_broker_sim.config.store import MessageStoreConfig
from rocketpy_broker_sim.store.cleaning import HOUR_MS, DiskLevel, disk_level, how_many, is_hour_to_delete, plan
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.store.helpers import message, open_store, put_all

NOW = int(datetime(2026, 3, 1, 4, 30, tzinfo=UTC).timestamp() * 1000)
NOON = NOW + 8 * HOUR_MS
OLD = NOW - 73 * HOUR_MS
YOUNG = NOW - 71 * HOUR_MS


@pytest.fixture(autouse=True)
def greenwich(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("usage", "level"),
    [
        (0.0, DiskLevel.FINE),
        (0.75, DiskLevel.FINE),
        (0.751, DiskLevel.HIGH),
        (0.85, DiskLevel.HIGH),
        (0.851, DiskLevel.VERY_HIGH),
        (0.90, DiskLevel.VERY_HIGH),
        (0.901, DiskLevel.FULL),
        (1.0, DiskLevel.FULL),
    ],
)
def test_ST14_levels_of_the_disk(usage, level):
    assert disk_level(usage, MessageStoreConfig()) is level


@pytest.mark.parametrize(
    ("setting", "value", "usage", "level"),
    [
        ("disk_max_used_space_ratio", 5, 0.09, DiskLevel.FINE),
        ("disk_max_used_space_ratio", 5, 0.11, DiskLevel.HIGH),
        ("disk_space_clean_forcibly_ratio", 5, 0.29, DiskLevel.FINE),
        ("disk_space_clean_forcibly_ratio", 5, 0.31, DiskLevel.VERY_HIGH),
        ("disk_space_warning_level_ratio", 5, 0.34, DiskLevel.FINE),
        ("disk_space_warning_level_ratio", 5, 0.36, DiskLevel.FULL),
        ("disk_space_warning_level_ratio", 100, 1.0, DiskLevel.VERY_HIGH),
    ],
)
def test_levels_are_kept_within_bounds(setting, value, usage, level):
    assert disk_level(usage, MessageStoreConfig(**{setting: value})) is level


@pytest.mark.parametrize(
    ("when", "hours"), [("04", {4}), ("4", {4}), ("04;16", {4, 16}), ("0;23", {0, 23}), ("00", {0})]
)
def test_ST14_hours_to_delete(when, hours):
    midnight = NOW - 4 * HOUR_MS
    assert {hour for hour in range(24) if is_hour_to_delete(when, midnight + hour * HOUR_MS)} == hours


def test_the_hour_is_the_local_one(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    assert is_hour_to_delete("12", NOW)
    assert not is_hour_to_delete("04", NOW)


@pytest.mark.parametrize("text", ["", "24", "4h", "04;", "04,16", "-1", "004", "٤"])
def test_hours_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match="deleteWhen"):
        read_broker_properties(f"deleteWhen={text}\n", "broker.conf")


@pytest.mark.parametrize(
    ("modified", "at_once", "most", "count"),
    [
        ([], False, 10, 0),
        ([YOUNG], False, 10, 0),
        ([OLD], False, 10, 1),
        ([NOW - 72 * HOUR_MS], False, 10, 1),
        ([NOW - 72 * HOUR_MS + 1], False, 10, 0),
        ([OLD, OLD, YOUNG], False, 10, 2),
        ([OLD, YOUNG, OLD], False, 10, 1),
        ([YOUNG, OLD], False, 10, 0),
        ([YOUNG, NOW], True, 10, 2),
        ([OLD] * 11, False, 10, 10),
        ([YOUNG] * 11, True, 3, 3),
        ([NOW + HOUR_MS], False, 10, 0),
    ],
)
def test_ST14_how_many_files_go(modified, at_once, most, count):
    assert how_many(modified, NOW, 72 * HOUR_MS, at_once=at_once, most=most) == count


@pytest.mark.parametrize(
    ("usage", "now", "on_command", "forcibly", "files"),
    [
        (0.1, NOON, False, True, 0),  # nothing asks for it
        (0.1, NOW, False, True, 2),  # the hour
        (0.1, NOON, True, True, 2),  # on command
        (0.8, NOON, False, True, 2),  # the disk fills up
        (0.86, NOON, False, True, 3),  # whatever the age
        (0.86, NOON, False, False, 2),  # but not when that is forbidden
        (0.95, NOON, False, True, 3),
        (0.95, NOON, False, False, 2),
    ],
)
def test_ST14_what_asks_for_it(usage, now, on_command, forcibly, files):
    config = MessageStoreConfig(clean_file_forcibly_enable=forcibly)
    ages = [NOW - 81 * HOUR_MS, NOW - 80 * HOUR_MS, NOW]
    found = plan(config, usage, ages, now, on_command=on_command)
    assert found.files == files
    assert bool(found.why) == (files > 0)
    assert found.level is disk_level(usage, config)


def test_what_a_plan_says_is_for_operators():
    config = MessageStoreConfig()
    assert plan(config, 0.8, [], NOON).why == "80% of the disk are in use"
    assert plan(config, 0.1, [], NOON, on_command=True).why == "an administrator asked for it"
    assert plan(config, 0.1, [], NOW).why == "it is the hour to delete"


def test_a_file_whose_folder_was_not_flushed_is_gone_and_the_next_one_waits_for_that():
    """Were the next one removed first, a power loss could bring the first back without it: a gap."""
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"x" * 900) for _ in range(20)])
    store.flushing.flush_all()
    retention = store.retention
    first = retention.take_log_file()
    with storage.failing("sync_dir", code=errno.EIO, under="commitlog"), pytest.raises(StoreError):
        retention.remove(first)
    retention.put_back_log_file(first)
    assert retention.log_start == first.end
    calls = []
    storage.fault = lambda operation, path, size: calls.append((operation, path))
    second = retention.take_log_file()
    retention.remove(second)
    assert calls == [("sync_dir", "commitlog"), ("unlink", second.path), ("sync_dir", "commitlog")]
