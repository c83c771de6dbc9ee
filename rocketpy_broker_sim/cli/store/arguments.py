"""Options that several commands share."""

from __future__ import annotations

import argparse

from rocketpy_broker_sim.store.inspect.message_rows import MAX_BODY

__all__ = ["add_body_option", "add_queue_options", "add_range_options", "number", "shown_bodies"]


def number(text: str) -> int:
    """A whole number from zero on."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def add_queue_options(parser: argparse.ArgumentParser) -> None:
    """Which queue."""
    parser.add_argument("--topic", "-t", required=True, metavar="TOPIC", help="topic of the queue")
    parser.add_argument("--queue", "-q", required=True, type=number, metavar="NUMBER", help="number of the queue")


def add_range_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Where to begin, and how many."""
    parser.add_argument("--from", dest="begin", type=number, metavar="NUMBER", help=f"begin at this {what}")
    parser.add_argument("--limit", type=number, metavar="NUMBER", help="show that many at most")


def add_body_option(parser: argparse.ArgumentParser) -> None:
    """Whether large bodies are told to machines too."""
    parser.add_argument("--bodies", action="store_true", help=f"with --json, bodies of more than {MAX_BODY} bytes too")


def shown_bodies(options: argparse.Namespace) -> int | None:
    """Bytes of the largest body in a row, None for all: tables cut them anyway."""
    return MAX_BODY if options.json and not options.bodies else None
