"""Commits, a run at a time: their half messages are read together, and what consumers get is put together.

Usual are one-way commits whose header looks like the one before (`wire.end_layout`), of half messages as clients make
them. All else is left to `end_transaction`, which does the same for each, or says what is wrong with it. The messages
are stored in the order of the ends, whichever way they go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import StoreError
from rocketpy.message import PropertyName
from rocketpy.wire.end_layout import LaidOutEnd
from rocketpy.wire.names import TRANSACTION_HALF_TOPIC, is_valid_stored_topic
from rocketpy.wire.properties import plain_pairs
from rocketpy.wire.record import body_crc, head_layout, read_head
from rocketpy.wire.sysflag import TRANSACTION_COMMIT, with_transaction_type
from rocketpy_broker_sim.broker.delays.again import readable
from rocketpy_broker_sim.broker.putting.put_pipeline import StageOrder
from rocketpy_broker_sim.broker.transactions.half import HALF_QUEUE
from rocketpy_broker_sim.store.put_result import IncomingMessage, MessageRun, PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.transactions.window import Key
    from rocketpy_broker_sim.broker.views import TransactionView
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["CommitReplies", "CommitRuns", "is_usual"]

_GROUP = PropertyName.PRODUCER_GROUP.encode()
_UNIQUE_KEY = PropertyName.UNIQUE_KEY.encode()
_REAL_TOPIC = PropertyName.REAL_TOPIC.encode()
_REAL_QUEUE_ID = PropertyName.REAL_QUEUE_ID.encode()
_LONGEST_QUEUE_ID = 9
"""Digits."""
_ALONE = frozenset({PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS, PropertyName.CRC32})
"""Properties that ask for more when a transaction ends, beside those that stages of the pipeline look at."""


def is_usual(request: RemotingCommand) -> bool:
    """Whether an end may be a usual one."""
    if not isinstance(request, LaidOutEnd) or not request.is_oneway:
        return False
    return request.layout.header.commit_or_rollback == TRANSACTION_COMMIT


class _CommonFields(NamedTuple):
    """What messages must have in common to be put together."""

    topic: str
    """The topic for consumers."""
    flag: int
    """The number that its sender gave it."""
    sys_flag: int
    """Its flag word, as committed."""
    born_host: bytes
    """The address of its sender, packed."""
    reconsume_times: int
    """How often it was sent back."""


class _Commit(NamedTuple):
    """A commit, and the message for its consumers."""

    request: LaidOutEnd
    """What ends the transaction."""
    common: _CommonFields
    """What it has in common with others of its run."""
    key: Key
    """Group and id of the transaction."""
    queue_id: int
    """The queue for consumers."""
    body: bytes
    """The body of the message, as stored."""
    properties: bytes
    """Those of the half message, encoded."""
    born_timestamp: int
    """When the message was made, ms since 1970."""


class CommitRuns:
    """Commits transactions in runs.

    Args:
        broker: what it may reach.
        alone: carries out one end.
    """

    def __init__(self, broker: TransactionView, alone: Processor) -> None:
        self._broker = broker
        self._alone = alone
        names = _ALONE | broker.pipeline.watched_behind(StageOrder.HALF_MESSAGE)
        self._watched = {name.encode() for name in names}

    def take(self, connection: Connection, requests: Sequence[LaidOutEnd]) -> list[CommitReplies]:
        """Carry out usual ends, in order. The turn gets the replies to those that turn out to be unusual."""
        records = self._broker.store.reads.records_at(
            TRANSACTION_HALF_TOPIC, HALF_QUEUE, [request.offset for request in requests]
        )
        replies: list[CommitReplies] = []
        run: list[_Commit] = []
        for request, found in zip(requests, records, strict=True):
            commit = None if found is None else self._commit_of(request, *found)
            if run and (commit is None or commit.common != run[0].common):
                replies += self._put(connection, run)
                run = []
            if commit is None:
                self._broker.turn.run_alone(self._alone, connection, request)
            else:
                run.append(commit)
        return [*replies, *self._put(connection, run)]

    def _commit_of(self, request: LaidOutEnd, record: LogRecord, data: bytes) -> _Commit | None:
        """The commit of a half message; None if anything about it is unusual."""
        found = plain_pairs(record.properties)
        if record.position != request.position or found is None or not self._watched.isdisjoint(found):
            return None
        group = request.layout.header.producer_group
        queue_id = found.get(_REAL_QUEUE_ID, b"")
        topic = found.get(_REAL_TOPIC, b"").decode()
        if found.get(_GROUP) != group.encode() or not queue_id.isdigit() or len(queue_id) > _LONGEST_QUEUE_ID:
            return None
        head = read_head(data)
        begin = head_layout(head.sys_flag).size
        body = data[begin : begin + head.body_length]
        if not is_valid_stored_topic(topic) or body_crc(body) != head.body_crc:
            return None
        sys_flag = with_transaction_type(head.sys_flag, TRANSACTION_COMMIT)
        return _Commit(
            request,
            _CommonFields(topic, head.flag, sys_flag, head.born_host, head.reconsume_times),
            (group, found.get(_UNIQUE_KEY, b"").decode()),
            readable(self._broker.topics.queues_read(topic), int(queue_id)),
            body,
            record.properties,
            head.born_timestamp,
        )

    def _put(self, connection: Connection, run: Sequence[_Commit]) -> list[CommitReplies]:
        """Put the messages of commits together, or carry out each by itself where that is not possible."""
        end = self._put_together(run) if run else None
        if end is not None:
            return [CommitReplies(connection, len(run), end)]
        for commit in run:
            self._broker.turn.run_alone(self._alone, connection, commit.request)
        return []

    def _put_together(self, run: Sequence[_Commit]) -> int | None:
        """Put the messages of commits together. Returns where the log ends then; None, and nothing is done, if one of
        them has ended already or comes twice, or the store does not take them as a run.
        """
        broker = self._broker
        ends = [(broker.ledger.window.live(commit.key, commit.request.offset), commit.key) for commit in run]
        live = [(offset, key) for offset, key in ends if offset is not None]
        if len({offset for offset, _ in live}) < len(run) or broker.refusal(wait=True) is not None:
            return None
        end = self._place_run(run) if len(run) > 1 else self._place_one(run[0])
        if end is not None:
            broker.ledger.commit_all(live, run[0].common.topic)
        return end

    def _place_run(self, run: Sequence[_Commit]) -> int | None:
        common = run[0].common
        placed = self._broker.store.put_run(
            MessageRun(
                common.topic,
                common.flag,
                common.sys_flag,
                common.born_host,
                self._broker.identity.store_host,
                common.reconsume_times,
                [commit.queue_id for commit in run],
                [commit.body for commit in run],
                [commit.properties for commit in run],
                [commit.born_timestamp for commit in run],
                [commit.request.position for commit in run],
            )
        )
        return None if placed is None else placed.end

    def _place_one(self, commit: _Commit) -> int | None:
        """Columns of one are dearer than one message."""
        common = commit.common
        message = IncomingMessage(
            common.topic,
            commit.queue_id,
            commit.body,
            commit.properties,
            common.flag,
            common.sys_flag,
            commit.born_timestamp,
            common.born_host,
            self._broker.identity.store_host,
            common.reconsume_times,
            commit.request.position,
            was_stored=True,
        )
        try:
            result = self._broker.store.put(message)
        except StoreError:  # it is carried out by itself, and fails there; the commits behind it go on
            return None
        return result.end if result.status is PutMessageStatus.PUT_OK else None


class CommitReplies:
    """The replies to one-way commits, of which nothing is sent; see `replies.Replies`."""

    __slots__ = ("_count", "connection", "for_disk", "new_topic", "position")

    def __init__(self, connection: Connection, count: int, position: int) -> None:
        self.connection = connection
        self.position = position
        self.for_disk = True
        self.new_topic: str | None = None
        self._count = count

    def __len__(self) -> int:
        """How many commits."""
        return self._count

    def send(self) -> None:
        """Nobody waits."""

    def send_instead(self, code: int, remark: str) -> None:
        """Nobody waits."""

    def send_as(self, code: int) -> None:
        """Nobody waits."""

    def settle_down(self) -> None:
        """They keep nothing."""
