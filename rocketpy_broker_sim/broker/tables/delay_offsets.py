"""How far each delay level has been delivered: delayOffset.json. Plays the part of the table in ScheduleMessageService.

The key is the level, which counts from 1; the queue of a level in the schedule topic counts from 0.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from rocketpy.wire.bodies.offsets import DelayOffsetSerializeWrapper
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy_broker_sim.broker.tables.persist import FILE_LIMITS, StoredTable, pretty_steps

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["DelayOffsetTable"]


class DelayOffsetTable(StoredTable):
    """The next offset to deliver, by level.

    Attributes:
        data_version: Rises with every so many updates.
    """

    file_name = "delayOffset.json"

    def __init__(self, config: BrokerConfig, storage: Storage) -> None:
        super().__init__(storage)
        self._config = config
        self._offsets: dict[int, int] = {}
        self._updates = 0
        self.data_version = DataVersion()

    def get(self, level: int) -> int:
        """The next offset to deliver; 0 for a level that never had a message."""
        return self._offsets.get(level, 0)

    def levels(self) -> list[int]:
        """The levels that have been delivered from."""
        return sorted(self._offsets)

    def update(self, level: int, offset: int) -> None:
        """Everything before `offset` has been delivered."""
        if self._offsets.get(level) == offset:
            return
        self._offsets[level] = offset
        self.changed = True  # written with the next round
        self._updates += 1
        if self._updates % max(1, self._config.delay_offset_update_version_step) == 0:
            self.data_version = self.data_version.next_version()

    def encode_steps(self) -> Generator[None, None, bytes]:
        """The content of delayOffset.json."""
        return pretty_steps({"dataVersion": self.data_version.to_json(), "offsetTable": self._offsets})

    def decode(self, data: bytes) -> None:
        """Take over delayOffset.json; 4.x wrote no version."""
        wrapper = DelayOffsetSerializeWrapper.decode(data, limits=FILE_LIMITS)
        self._offsets = dict(wrapper.offset_table)
        self.data_version = wrapper.data_version or self.data_version
