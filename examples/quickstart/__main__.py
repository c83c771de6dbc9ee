"""Send every flight (or every line of a file) as a message, consume them with a group of two, check, print a table.

    python -m examples.quickstart [FILE] [--namesrv ADDRESS] [--topic TOPIC] [--key COLUMN] [--tag COLUMN]

Without --namesrv a name server and a broker run inside this process. Exits with 1 when a record is missing or came
twice.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack

import rocketpy.sync
from examples.quickstart.records import Flights, OwnFile, UnreadableInputError
from examples.quickstart.screen import Bars, progress, table
from examples.quickstart.tally import NUMBER, Tally
from rocketpy.sync import ConsumeFromWhere, Message
from rocketpy_broker_sim import BlockingLocalCluster

if TYPE_CHECKING:
    from concurrent.futures import Future

QUEUES = 8
PATIENCE = 30.0
"""Seconds without a new record after which we stop waiting."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="quickstart", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="CSV (with a header line) or NDJSON; the flights without it")
    parser.add_argument("--namesrv", help='name servers "host:port;host:port" of a running cluster')
    parser.add_argument("--topic", help="topic to use; a new one without it")
    parser.add_argument("--key", help="column that becomes the key of a message (own files)")
    parser.add_argument("--tag", help="column that becomes the tag of a message (own files)")
    return parser.parse_args()


@contextlib.contextmanager
def name_servers(given: str | None) -> Iterator[str]:
    """The name servers that were given, or those of a cluster that lives as long as the block."""
    if given:
        yield given
        return
    with BlockingLocalCluster() as cluster:
        yield cluster.name_server_addresses


def messages(source: Flights | OwnFile, topic: str) -> Iterator[Message]:
    """One message a record: body in msgpack, key and tag from the data, its number as a property."""
    for number, record in enumerate(source):
        keys = (
            ["-".join(str(record[column]) for column in source.key_columns).replace(" ", "_")]
            if source.key_columns
            else []
        )
        tag = str(record[source.tag_column]) if source.tag_column else None
        yield Message(topic, msgpack.packb(record), tags=tag or None, keys=keys, properties={NUMBER: str(number)})


def send_all(producer: rocketpy.sync.Producer, source: Flights | OwnFile, topic: str, tally: Tally, bars: Bars) -> int:
    """Send without waiting for each answer; `send_soon` itself waits while too much is in flight."""
    under_way: deque[Future[rocketpy.SendResult]] = deque()
    count = 0
    for count, message in enumerate(messages(source, topic), 1):
        under_way.append(producer.send_soon(message))
        if count % 2000 == 0:
            bars.update(count, tally.received)
            while under_way and under_way[0].done():  # what went wrong is raised here, not at the end
                under_way.popleft().result()
    for future in under_way:
        future.result()
    return count


def await_all(tally: Tally, sent: int, bars: Bars) -> None:
    """Wait until everything arrived, or nothing more does."""
    last, since = -1, time.monotonic()
    while tally.received < sent and time.monotonic() - since < PATIENCE:
        if tally.received != last:
            last, since = tally.received, time.monotonic()
        bars.update(sent, tally.received)
        time.sleep(0.05)
    bars.update(sent, tally.received)


@contextlib.contextmanager
def consumers(namesrv: str, topic: str, queues: int, tally: Tally) -> Iterator[None]:
    """Two consumers of one group that share the queues, both assigned when the block begins."""
    with contextlib.ExitStack() as stack:
        pair = []
        for _ in range(2):
            consumer = rocketpy.sync.PushConsumer(
                f"quickstart_{topic}",
                namesrv=namesrv,
                consume_message_batch_max_size=32,
                consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            )
            consumer.subscribe(topic, tally.take)
            pair.append(stack.enter_context(consumer))
        deadline = time.monotonic() + PATIENCE
        while any(not c.assignment for c in pair) or len({q for c in pair for q in c.assignment}) < queues:
            if time.monotonic() > deadline:
                raise SystemExit(f"the two consumers got no queues of {topic} within {PATIENCE:.0f} s")
            time.sleep(0.02)
        yield


def run(source: Flights | OwnFile, namesrv: str, topic: str) -> bool:
    """The whole job. Returns whether each record arrived exactly once."""
    # Hundreds of thousands of small objects live for a moment and form no cycles: looking for some costs a sixth here.
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    tally = Tally(total := source.count(), source.value_column)
    with rocketpy.sync.Producer("quickstart_producer", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=QUEUES)
        queues = len(producer.queues(topic))
        with consumers(namesrv, topic, queues, tally), progress(total) as bars:
            started = time.perf_counter()
            sent = send_all(producer, source, topic, tally, bars)
            sending = time.perf_counter() - started
            await_all(tally, sent, bars)
            receiving = time.perf_counter() - started
    table((source.tag_column or "tag", "records", f"mean {source.value_column or 'value'}"), tally.rows())
    print(f"\n{sent:,} sent in {sending:.1f} s ({sent / sending:,.0f}/s), {source.name}, topic {topic}")
    rate = tally.received / receiving
    print(f"{tally.received:,} received in {receiving:.1f} s ({rate:,.0f}/s), {tally.duplicates} twice")
    return tally.is_exact(sent)


def main() -> int:
    """Run, and say how it went by the exit code."""
    options = arguments()
    try:
        source = OwnFile(options.file, options.key, options.tag) if options.file else Flights()
        topic = options.topic or f"Quickstart_{time.time_ns() // 1_000_000:x}"
        with name_servers(options.namesrv) as namesrv:
            exact = run(source, namesrv, topic)
    except (UnreadableInputError, rocketpy.RocketMQError) as exc:
        print(f"quickstart: {exc}", file=sys.stderr)
        return 2
    print("every record arrived exactly once" if exact else "RECORDS ARE MISSING OR CAME TWICE", flush=True)
    return 0 if exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
