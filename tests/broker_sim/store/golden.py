"""Store directories that Apache's brokers left, and what those brokers said about them."""

from __future__ import annotations

import json
from pathlib import Path

from rocketpy_broker_sim.config import read_broker_properties
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.golden_store import FOLDER, NAMES, copy

__all__ = ["NAMES", "GoldenStore"]


class GoldenStore:
    """A writable copy of one of the directories."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.root = folder / name
        copy(name, self.root)
        self.facts = json.loads((FOLDER / name / "facts.json").read_text())
        self.lines = [json.loads(line) for line in (FOLDER / name / "messages.jsonl").read_text().splitlines()]
        self.messages = [line for line in self.lines if line["kind"] == "message"]
        self.config = read_broker_properties((FOLDER / name / "broker.conf").read_text())[0].store

    def open(self) -> MessageStore:
        store = MessageStore(RealStorage(self.root), self.config)
        store.load()
        return store

    def queues(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(min, max) of every queue as the running broker told."""
        table = self.facts["live"]["topic_queue_offsets"]
        return {
            (topic, int(queue_id)): (offsets["min"], offsets["max"])
            for topic, queues in table.items()
            for queue_id, offsets in queues.items()
        }
