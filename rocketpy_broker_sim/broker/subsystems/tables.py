"""Topics, consumer groups and where groups stand: tables with a file each. Plays their managers' load and persist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.logs import get_logger
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.names import LMQ_PREFIX
from rocketpy_broker_sim.broker.subsystem import Subsystem
from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.serving.memory import TableRoom

if TYPE_CHECKING:
    from rocketpy.remoting.budget import Budget
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.tables.persist import StoredTable
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["Tables"]

_logger = get_logger(__name__)


class Tables(Subsystem):
    """What a broker knows about its messages, beside the messages.

    Args:
        config: the settings.
        storage: where the files are.
        store: the messages; recovered before.
        budget: what they take counts there.
    """

    def __init__(self, config: BrokerConfig, storage: Storage, store: MessageStore, budget: Budget) -> None:
        self.topics = TopicTable(config, storage, TableRoom(budget, "delete topics that are not needed"))
        self.groups = SubscriptionGroupTable(config, storage, TableRoom(budget, "delete groups that are not needed"))
        remedy = "delete groups that are not needed with their offsets"
        self.offsets = ConsumerOffsetTable(config, storage, TableRoom(budget, remedy))
        self._store = store
        self._reads = store.reads

    def recover(self) -> None:
        """Read the files, and put right what does not fit the messages."""
        for table in self.persists():
            table.load()
        self._adopt_topics()
        self.offsets.clamp(self._reads.max_offset)
        if self._store.was_unclean:
            self.offsets.note_ends(self._reads.max_offset)
        self.offsets.persist()  # at once: another crash must not bring back what new messages have caught up with

    def _adopt_topics(self) -> None:
        """Take up topics that have messages and no settings: the broker died before it had written those.

        Those that have no messages any more lose their queues. Where groups stand in them is kept, and taken back to
        their beginning: a group without an offset may begin behind the messages of a topic of that name that is made
        again.
        """
        unused = []
        for name in sorted(self._reads.topics()):
            if self.topics.get(name) is not None or name.startswith(LMQ_PREFIX):
                continue
            numbers = self._reads.queue_ids(name)
            if self.topics.is_system(name) or any(self._has_messages(name, number) for number in numbers):
                queues = max(numbers, default=0) + 1
                _logger.warning("the topic %s has messages and no settings: it gets %d queues", name, queues)
                self.topics.adopt(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues))
            else:
                unused.append(name)
        for name in unused:
            _logger.info("the topic %s has neither messages nor settings: its queues are deleted", name)
        self._store.delete_topics(unused)

    def _has_messages(self, name: str, queue_id: int) -> bool:
        return self._reads.min_offset(name, queue_id) < self._reads.max_offset(name, queue_id)

    def persists(self) -> Iterable[StoredTable]:
        """All three."""
        return (self.topics, self.groups, self.offsets)
