"""A store on its way through brokers of both kinds, each of which goes on with it and is then stopped or killed.

Everybody has to find what was there before, byte for byte, under the same offsets, positions, keys and ids.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rocketpy
import rocketpy.sync
from rocketpy.wire.message_codec import decode_messages
from tests.interop import lines, probe
from tests.interop.failure import InteropError
from tests.interop.ours import our_broker
from tests.interop.stores import handover
from tests.interop.stores.hammer import Hammer, find_out
from tests.interop.stores.handover import BILLS, LATER, NEVER, ORDERS, SCHEDULE, SETTINGS, TOPICS, Sent, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.apache import Apache, Cluster
    from tests.interop.servers import Server

pytestmark = pytest.mark.interop

NAME = "broker-handed"
FILTERS = {"filtering": "TAGS = 'red'"}
TAGGED, TAGS = [(ORDERS, 1), (BILLS, 0)], ["red", "größe"]
EXTENDED = {
    "enablePropertyFilter": True,
    "enableCalcFilterBitMap": True,
    "enableConsumeQueueExt": True,
    "mappedFileSizeConsumeQueueExt": 4_096,
}


@contextmanager
def filtering(namesrv: str) -> Iterator[None]:
    """A group takes a part of the orders by SQL92, so that their units get bit maps; those of the bills get none."""
    probe.wait_route(namesrv, ORDERS)
    consumer = rocketpy.sync.PushConsumer("filtering", namesrv=namesrv)
    consumer.subscribe(ORDERS, lambda message: None, sql=FILTERS["filtering"])
    with consumer:
        consumer.wait_assigned(handover.WITHIN)
        yield


class Stays:
    """The store, and who holds it in turn."""

    def __init__(self, apache: Apache, namesrv: str, home: Path, **settings: object) -> None:
        self.settings = {**SETTINGS, **settings}
        self.apache = apache
        self.namesrv = namesrv
        self.home = home
        self.sent = Sent()
        self.last: Snapshot | None = None
        self.indexed_from = 0
        self.killed = False

    @property
    def store(self) -> Path:
        """The directory."""
        return self.home / "store"

    def theirs(self) -> AbstractContextManager[Server]:
        """Apache's broker on it."""
        return self.apache.broker(self.namesrv, name=NAME, home=self.home, overrides=self.settings)

    def ours(self, **overrides: object) -> AbstractContextManager[Server]:
        """Our broker on it."""
        return our_broker(self.namesrv, name=NAME, home=self.home, overrides={**self.settings, **overrides})

    @contextmanager
    def stay(
        self,
        held: AbstractContextManager[Server],
        name: str,
        *,
        kill: bool,
        first: bool = False,
        beside: AbstractContextManager[None] | None = None,
    ) -> Iterator[str]:
        """Find what was there, go on with it, beside somebody else perhaps, and leave it stopped or killed."""
        with held as broker:
            if first:
                handover.make_topics(broker.address)
            else:
                self.check(broker.address)
                self.check_delayed(broker.address)
            with beside or nullcontext():
                handover.fill(broker.address, self.sent, name)
            yield broker.address
            self.check(broker.address)
            self.last = handover.look(broker.address)
            self.killed |= kill
            if kill:
                handover.wait_written(self.store, self.sent)
                Hammer(broker.address, self.sent, name).kill(broker.process.kill)

    # --- what a holder has to find ---------------------------------------------------------------------

    def check(self, broker: str) -> None:
        """Everything that was put into the store so far is there."""
        probe.eventually(lambda: self._is_all_there(broker) or None, "all queues at their ends", handover.WITHIN)
        find_out(broker, self.sent)
        found = handover.look(broker)
        assert found.bodies() == self.sent.bodies
        assert found.committed == self.sent.committed
        assert handover.topics(broker) == TOPICS
        if self.last is not None:
            for place, records in self.last.records.items():
                assert found.records[place][: len(records)] == records, place
        self.check_ids(broker, found)
        self.check_keys(broker)
        self.check_tags(broker, found)

    def _is_all_there(self, broker: str) -> bool:
        """Whether the broker that has just started has brought all records into their queues."""
        ends = {place: handover.end(broker, handover.MAX, place) for place in self.sent.bodies}
        return all(ends[place] >= len(bodies) for place, bodies in self.sent.bodies.items())

    def check_ids(self, broker: str, found: Snapshot) -> None:
        """By message id and by time every fiftieth message is found."""
        for place, records in found.records.items():
            for record in records[::50]:
                (message,) = decode_messages(record)
                assert handover.by_position(broker, message.commit_log_offset) == record
                offset = handover.by_time(broker, place, message.store_timestamp)
                if lines.of(self.apache.version).finds_times:
                    (there,) = decode_messages(records[offset])
                    assert there.store_timestamp == message.store_timestamp

    def check_delayed(self, broker: str) -> None:
        """What waits still waits, and what was due has come, once where nobody was killed."""

        def look() -> Counter[bytes] | None:
            found = Counter(each.body for each, _ in handover.pulled(broker, (LATER, 0)))
            return found if found.keys() >= set(self.sent.later) else None

        found = probe.eventually(look, f"{len(self.sent.later)} delayed messages", handover.WITHIN)
        assert found.keys() == set(self.sent.later)
        assert self.killed or found.total() == len(self.sent.later)
        waiting = handover.pulled(broker, (SCHEDULE, NEVER - 1))
        assert len(waiting) == self.sent.never

    def check_tags(self, broker: str, found: Snapshot) -> None:
        """A pull by tag gets what has the tag."""
        for place in TAGGED:
            messages = decode_messages(b"".join(found.records[place]))
            for tag in TAGS:
                wanted = [each.body for each in messages if each.system_properties["TAGS"] == tag]
                assert handover.pulled_by_tag(broker, place, tag) == wanted, (place, tag)

    def check_keys(self, broker: str) -> None:
        """Every key leads to all its messages and to no other, as far as the index has not been given up."""
        keys = list(self.sent.keys.items())
        for (topic, key), positions in keys[::20] + [each for each in keys if each[0][1].startswith("tens")]:
            look = partial(self._has_indexed, broker, topic, key, positions)
            probe.eventually(look, f"every message with the key {key}", handover.WITHIN)

    def _has_indexed(self, broker: str, topic: str, key: str, positions: list[int]) -> bool | None:
        """Whether a key leads to all its messages; a broker brings a message into its index after its queue."""
        found = handover.by_key(broker, topic, key)
        assert set(found) <= set(positions), key
        wanted = [position for position in positions if position >= self.indexed_from]
        return [position for position in found if position >= self.indexed_from] == wanted or None

    def filters(self) -> dict[str, str]:
        """By group, the expressions for the orders in the file that the last holder has written."""
        table = json.loads((self.store / "config" / "consumerFilter.json").read_bytes())["filterDataByTopic"]
        groups = table.get(ORDERS, {"groupFilterData": {}})["groupFilterData"]
        return {group: data["expression"] for group, data in groups.items()}

    def written_since(self, ended: float) -> dict[str, str] | None:
        """The same once the holder has written the file, since the one before it ended; it writes what it has read."""
        file = self.store / "config" / "consumerFilter.json"
        return self.filters() if file.stat().st_mtime > ended else None

    def has_file_ahead(self) -> bool:
        """Whether the last file of the log is one that was made before it is needed."""
        last = max((self.store / "commitlog").iterdir())
        return not any(last.read_bytes())

    def give_up_index(self) -> None:
        """The next holder is a broker of Apache's that recovers a killed store.

        It deletes index files that are newer than the checkpoint, and fills them again from that log file on with which
        it begins to read, not from the first message in them.
        """
        self.indexed_from = max(max(positions) for positions in self.sent.keys.values()) + 1


def test_a_store_born_at_apaches_broker(apache: Apache, our_servers: Cluster, tmp_path: Path) -> None:
    stays = Stays(apache, our_servers.namesrv, tmp_path)
    with stays.stay(stays.theirs(), "one", kill=True, first=True):
        pass
    with stays.stay(stays.ours(), "two", kill=True):
        pass
    assert stays.has_file_ahead()
    stays.give_up_index()
    with stays.stay(stays.theirs(), "three", kill=False):
        pass
    with stays.stay(stays.ours(), "four", kill=False):
        pass


def test_a_store_born_here(apache: Apache, our_servers: Cluster, tmp_path: Path) -> None:
    stays = Stays(apache, our_servers.namesrv, tmp_path, **EXTENDED)
    one, beside = stays.ours(enabledAppendPropCRC=True), filtering(stays.namesrv)
    with stays.stay(one, "one", kill=False, first=True, beside=beside):
        pass
    extended = {path.parts[-3] for path in (stays.store / "consumequeue_ext").glob("*/*/*")}
    assert extended == {ORDERS}
    assert b"__CRC32#" in (stays.store / "commitlog" / f"{0:020d}").read_bytes()
    assert stays.filters() == FILTERS
    ended = time.time()
    with stays.stay(stays.theirs(), "two", kill=True):
        look = partial(stays.written_since, ended)
        assert probe.eventually(look, "file of filters", handover.WITHIN) == FILTERS
    with stays.stay(stays.ours(), "three", kill=False):
        pass
    assert stays.filters() == FILTERS
    with stays.stay(stays.theirs(), "four", kill=True):
        pass


@pytest.mark.older_by_night("both lines lock the same file in the same way")
@pytest.mark.parametrize("holder", ["ours", "theirs"])
def test_threat_L11_a_store_has_one_broker(holder: str, apache: Apache, our_servers: Cluster, tmp_path: Path) -> None:
    namesrv, store = our_servers.namesrv, {"storePathRootDir": tmp_path / "store"}
    first, second = our_broker, apache.broker
    words = "already started"
    if holder == "theirs":
        first, second, words = apache.broker, our_broker, "in use by another broker"
    with first(namesrv, name=f"first-{holder}", home=tmp_path) as broker:
        settings = {**store, "storePathCommitLog": tmp_path / "store" / "commitlog"}
        with pytest.raises(InteropError, match=words):
            with second(namesrv, name=f"second-{holder}", overrides=settings):
                pass
        assert broker.process.running
        probe.create_topic(broker.address, "Still-served")
        broker.process.kill()  # nobody reads this store again
