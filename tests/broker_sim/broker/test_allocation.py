"""The broker makes the next file of its log in the background, says once what it cannot do, and goes on."""

from __future__ import annotations

import errno
import logging

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy_broker_sim.broker.upkeep import allocation
from rocketpy_broker_sim.store.disk.memory import MemoryStorage, MemoryView
from tests.broker_sim.broker.kit import bodies, broker_and_client

SMALL = {"mapped_file_size_commit_log": 4096}
BODY = b"x" * 1500


def told(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


async def test_the_next_file_is_there_before_the_log_needs_it(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, **SMALL) as (_, client):
        assert storage.list("commitlog") == []
        for number in range(1, 8):
            assert (await client.send(body=BODY)).code == 0
            await wait_all_tasks_blocked()
            files = (number + 1) // 2  # two fit into one
            assert len(storage.list("commitlog")) == files + 1
        assert bodies(await client.pull()) == [BODY] * 7
    assert len(storage.list("commitlog")) == 4
    async with broker_and_client(storage=storage, **SMALL) as (_, client):
        await wait_all_tasks_blocked()
        assert len(storage.list("commitlog")) == 5


async def test_what_cannot_be_made_is_said_once_and_sends_go_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, **SMALL) as (_, client):
        attempts = 0

        def every_first_fails(operation: str, path: str, size: int) -> None:
            nonlocal attempts
            if operation == "create" and path.startswith("commitlog"):
                attempts += 1
                if attempts > 1 and attempts % 2 == 0:  # the service comes before the log itself
                    raise OSError(errno.EMFILE, "Too many open files")

        storage.fault = every_first_fails
        for _ in range(7):
            assert (await client.send(body=BODY)).code == 0
            await wait_all_tasks_blocked()
        assert attempts > 4
        assert len(told(caplog, "the next log file could not be created in advance")) == 1
        assert "raise the limit (ulimit -n)" in caplog.text
        assert bodies(await client.pull()) == [BODY] * 7


async def test_a_refused_memory_lock_is_said_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(view: MemoryView) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(MemoryView, "lock_in_memory", refuse)
    async with broker_and_client(warm_maped_file_enable=True, **SMALL) as (_, client):
        for _ in range(7):
            assert (await client.send(body=BODY)).code == 0
            await wait_all_tasks_blocked()
    assert len(told(caplog, "raise the limit of locked memory (ulimit -l")) == 1
    assert [record.levelno for record in caplog.records if "locked memory" in record.getMessage()] == [logging.WARNING]


async def test_a_broker_is_closed_amid_the_warming_of_a_file(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = []

    async def slowly(function):
        pieces.append(function)
        await trio.sleep(10)
        return function()

    monkeypatch.setattr(allocation, "run_blocking", slowly)
    storage = MemoryStorage()
    size = 64 * 1024 * 1024
    async with broker_and_client(storage=storage, warm_maped_file_enable=True, mapped_file_size_commit_log=size) as (
        _,
        client,
    ):
        await client.send(body=BODY)
        await trio.sleep(25)
        assert len(storage.list("commitlog")) == 2
        assert (await client.send(body=BODY)).code == 0
    assert len(pieces) == 3
    assert len(storage.list("commitlog")) == 1
    assert not storage.exists("abort")
