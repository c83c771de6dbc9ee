"""Brokers with settings of their own: ours with or without a watch over its pauses, and Apache's beside it.

No name server of ours is needed: topics are made by request, or stand in the table that lies in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bars import APACHE, OURS
from benchmarks.frames import Wire, create_topic_frame
from benchmarks.processes import Child
from benchmarks.servers import APACHE_SETTINGS, PATIENCE, serving_address, translated, write_settings
from benchmarks.store.measure import Bench, directory

if TYPE_CHECKING:
    from tests.interop.apache import Apache

MODULE = "rocketpy_broker_sim.cli.broker"


@dataclass(frozen=True)
class Broker:
    """A broker that serves.

    Attributes:
        make: Whose it is, as samples are kept.
        store: Where its store lies.
        child: The process, where it is ours.
        serves_after: Seconds from its start until it said that it serves, likewise.
    """

    make: str
    address: str
    pid: int
    store: Path
    child: Child | None = None
    serves_after: float | None = None

    def create_topic(self, topic: str, queues: int) -> None:
        """Make a topic; clients that ask name servers need not find it."""
        with Wire(self.address) as wire:
            wire.ask(create_topic_frame(topic, queues))


@contextmanager
def ours(
    home: Path, settings: Mapping[str, object] | None = None, *, command: Sequence[str] = ("-m", MODULE)
) -> Iterator[Broker]:
    """Run our broker over the store in a directory, which stays."""
    home.mkdir(parents=True, exist_ok=True)
    values = {**PATIENCE, **(settings or {}), "storePathRootDir": home / "store"}
    child = Child(*command, "-c", write_settings(str(home), values))
    try:
        address = serving_address(child)
        yield Broker(OURS, address, child.pid, home / "store", child, child.age())
    finally:
        child.kill()


@contextmanager
def apaches(release: Apache, settings: Mapping[str, object]) -> Iterator[Broker]:
    """Run Apache's broker in a directory of its own."""
    from tests.interop.failure import InteropError

    overrides = {**APACHE_SETTINGS, **settings}
    with translated(InteropError), release.cluster(overrides=overrides) as cluster:
        (broker,) = cluster.brokers
        yield Broker(APACHE, broker.address, broker.process.pid, broker.store)


@contextmanager
def side_by_side(bench: Bench, settings: Mapping[str, object]) -> Iterator[list[Broker]]:
    """Ours and, where it is to be had, Apache's with the same settings, both up at once."""
    with directory() as place, ours(place, settings) as own:
        if bench.apache is None:
            yield [own]
            return
        bench.say("Apache's broker starts")
        with apaches(bench.apache, settings) as theirs:
            yield [own, theirs]
