"""rocketpy-store query: messages by key, unique id, offset id or time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from rocketpy.cli.output import Column, Output
from rocketpy.cli.text import body_text, time_text
from rocketpy.errors import ConfigError
from rocketpy_broker_sim.cli.store.arguments import add_body_option, number, shown_bodies
from rocketpy_broker_sim.cli.store.opening import opened_store
from rocketpy_broker_sim.store.inspect.find import Finder

if TYPE_CHECKING:
    import argparse

    from rocketpy_broker_sim.store.inspect.layout import StoreLayout
    from rocketpy_broker_sim.store.inspect.message_rows import Row

HELP = "find messages by key or unique key of a topic, by offset message id, or by time"
_COLUMNS = (
    Column("topic", "topic"),
    Column("queue", "queueId", True),
    Column("offset", "queueOffset", True),
    Column("position", "physicalOffset", True),
    Column("stored (UTC)", lambda row: time_text(row["storeTimestamp"])),
    Column("keys", "keys"),
    Column("body", body_text),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is special about this command."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--key", metavar="KEY", help="messages of --topic with this key, through the index")
    what.add_argument("--unique-key", metavar="ID", help="the message of --topic with this unique id, likewise")
    what.add_argument("--id", metavar="ID", help="the message with this offset message id")
    what.add_argument(
        "--time", type=number, metavar="MS", help="of each queue of --topic the first stored then or later"
    )
    parser.add_argument("--topic", "-t", metavar="TOPIC", help="the topic")
    parser.add_argument("--scan", action="store_true", help="go through the log, without the index")
    parser.add_argument("--limit", type=number, metavar="NUMBER", help="show that many at most")
    add_body_option(parser)


def run(options: argparse.Namespace) -> int:
    """Find them."""
    if options.id is None and options.topic is None:
        raise ConfigError("--key, --unique-key and --time need --topic: keys are found by topic and key together")
    output = Output(as_json=options.json)
    with opened_store(options) as layout:
        output.rows(_COLUMNS, islice(_found(layout, options), options.limit), empty="no such message")
    return 0


def _found(layout: StoreLayout, options: argparse.Namespace) -> Iterator[Row]:
    query = Finder(layout, max_body=shown_bodies(options))
    if options.id is not None:
        return query.by_id(options.id)
    if options.time is not None:
        return query.by_time(options.topic, options.time)
    unique = options.unique_key is not None
    search = query.by_scan if options.scan or not layout.index else query.by_key
    return search(options.topic, options.unique_key if unique else options.key, unique=unique)
