"""The servers of a kill loop: a name server and a broker of ours on ports that stay the same, to be started again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rocketpy.producer import Producer
from rocketpy_broker_sim.config import MessageStoreConfig, read_broker_properties
from tests.kill.content import QUEUES, TOPIC, TRANSACTED

LOG_FILE = 1024 * 1024
QUEUE_FILE = 20 * 1000
TIMER_FILE = 52 * 400
INDEX_SLOTS, INDEX_ENTRIES = 1_000, 8_000
"""Files so small that a run fills several of each kind."""
CHECK_AFTER = 700
"""Milliseconds after which producers are asked about a transaction; they may be dead for longer."""


@dataclass(frozen=True)
class Servers:
    """Where everything is."""

    home: Path
    base_port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the broker beside those of every run, or instead of them."""

    @property
    def name_server(self) -> str:
        """What clients are given."""
        return f"127.0.0.1:{self.base_port}"

    @property
    def store(self) -> Path:
        """The broker's directory."""
        return self.home / "store"

    def write(self) -> None:
        """Write the files that the servers are started with."""
        (self.home / "namesrv.conf").write_text(f"listenPort={self.base_port}\nbindAddress=127.0.0.1\n")
        settings: dict[str, object] = {
            "brokerClusterName": "KillCluster",
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": self.base_port + 2,
            "namesrvAddr": self.name_server,
            "registerNameServerPeriod": 10_000,
            "storePathRootDir": self.store,
            "mappedFileSizeCommitLog": LOG_FILE,
            "mappedFileSizeConsumeQueue": QUEUE_FILE,
            "maxHashSlotNum": INDEX_SLOTS,
            "maxIndexNum": INDEX_ENTRIES,
            "flushDiskType": "SYNC_FLUSH",
            "flushConsumerOffsetInterval": 1_000,
            "cleanFileForciblyEnable": "false",
            "transactionTimeOut": CHECK_AFTER,
            "transactionCheckInterval": CHECK_AFTER,
            "transactionCheckMax": 1_000_000,
            "recallMessageEnable": "true",
            "mappedFileSizeTimerLog": TIMER_FILE,
            **self.settings,
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.home / "broker.conf").write_text(text)

    def arguments(self, command: str) -> list[str]:
        """How `namesrv` or `broker` is started."""
        return [
            f"rocketpy_broker_sim.cli.{command}",
            *("-c", str(self.home / f"{command}.conf")),
            *("--log", str(self.home / f"{command}.log")),
        ]

    def store_settings(self) -> MessageStoreConfig:
        """What the broker's store is opened with."""
        return read_broker_properties((self.home / "broker.conf").read_text())[0].store

    @property
    def broker(self) -> str:
        """Where the broker listens."""
        return f"127.0.0.1:{self.base_port + 2}"

    async def create_topics(self) -> None:
        """Create the topics."""
        async with Producer("kill-setup", namesrv=self.name_server) as producer:
            for topic in (TOPIC, TRANSACTED):
                await producer.create_topic(topic, queues=QUEUES)
