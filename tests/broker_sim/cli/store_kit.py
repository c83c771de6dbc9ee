"""What the tests of rocketpy-store share: running it in this process, stores to run it on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketpy_broker_sim.cli.store import main as program
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.store.helpers import message, put_all
from tests.golden_store import FOLDER, NAMES, copy

__all__ = ["GOLDEN", "NAMES", "Look", "fill", "golden_copy", "golden_rows", "ours"]

GOLDEN = FOLDER


class Look:
    """Runs the command and keeps what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.status = 0
        self.out = ""
        self.err = ""

    def __call__(self, command: str, directory: object, *arguments: object) -> list[str]:
        """Run it; returns the lines on standard output."""
        self.status = program.main([command, str(directory), *map(str, arguments)])
        captured = self._capsys.readouterr()
        self.out, self.err = captured.out, captured.err
        return self.out.splitlines()

    def rows(self, command: str, directory: object, *arguments: object) -> list[dict[str, Any]]:
        """Run it with --json."""
        return [json.loads(line) for line in self(command, directory, *arguments, "--json")]


def golden_copy(name: str, folder: Path) -> Path:
    """A store of Apache's to write to."""
    copy(name, folder / name)
    return folder / name


def golden_rows(name: str) -> list[dict[str, Any]]:
    """What Apache's own decoder says of a store."""
    return [json.loads(line) for line in (FOLDER / name / "messages.jsonl").read_text("utf-8").splitlines()]


def ours(root: Path, **settings: Any) -> MessageStore:
    """A store of ours with small files, open."""
    sizes = {"mapped_file_size_commit_log": 4096, "mapped_file_size_consume_queue": 200}
    store = MessageStore(RealStorage(root), MessageStoreConfig(**{**sizes, **settings}))
    store.load()
    return store


def fill(store: MessageStore, count: int = 60, topic: str = "Orders") -> None:
    """Put messages into three queues of a topic."""
    put_all(store, [message(b"message %d " % n * 10, topic=topic, queue_id=n % 3) for n in range(count)])
