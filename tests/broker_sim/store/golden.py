"""Store directories that Apache's brokers left, and what those brokers said about them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rocketpy_broker_sim.config import MessageStoreConfig, parse_properties
from rocketpy_broker_sim.store.disk import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "store"
NAMES = sorted(path.name for path in FOLDER.iterdir())


class GoldenStore:
    """A writable copy of one of the directories."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.root = folder / name
        shutil.copytree(FOLDER / name / "store", self.root)
        self.facts = json.loads((FOLDER / name / "facts.json").read_text())
        lines = [json.loads(line) for line in (FOLDER / name / "messages.jsonl").read_text().splitlines()]
        self.messages = [line for line in lines if line["kind"] == "message"]
        settings = parse_properties((FOLDER / name / "broker.conf").read_text())
        self.config = MessageStoreConfig(
            mapped_file_size_commit_log=int(settings["mappedFileSizeCommitLog"]),
            mapped_file_size_consume_queue=int(settings["mappedFileSizeConsumeQueue"]),
        )

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
