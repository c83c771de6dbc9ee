"""python -m tests.chaos --seconds 120 --seed 1: a line a second, a table, and status 1 when a promise was broken."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial

from tests.chaos.book import ACKNOWLEDGED, FAILED
from tests.chaos.campaign import Campaign, Outcome
from tests.chaos.ways import ways
from tools.amounts import seconds

ENDS_WITHIN = 180.0
"""Seconds after the last fault in which a run has to end, whatever hangs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=seconds, default=120.0, help="how long things go wrong (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what goes wrong, and when (default %(default)s)")
    parser.add_argument("--log", action="store_true", help="show what clients and servers log")
    options = parser.parse_args(arguments)
    if not options.log:
        logging.disable(logging.CRITICAL)
    faulthandler.dump_traceback_later(options.seconds + ENDS_WITHIN, exit=True)
    outcome = Campaign(options.seconds, options.seed, partial(print, flush=True)).run()
    print(table(outcome, options.seed))
    for line in outcome.verdict.lines():
        print(f"  {line}")
    if outcome.verdict.count:
        print(f"run it again: ./dev run python -m tests.chaos --seconds {options.seconds:g} --seed {options.seed}")
    sys.stdout.flush()
    if any("does not end" in line for line in outcome.book.late):
        os._exit(1)  # the interpreter would wait for what hangs
    return 1 if outcome.verdict.count else 0


def table(outcome: Outcome, seed: int) -> str:
    """One line a figure."""
    book, verdict = outcome.book, outcome.verdict
    rows: list[tuple[str, object]] = [
        *((f"faults: {what}", count) for what, count in sorted(outcome.faults.items())),
        ("acknowledged", book.count(ACKNOWLEDGED)),
        ("failed", book.count(FAILED)),
        *((f"failed with {kind}", count) for kind, count in book.errors.most_common()),
        ("stored", outcome.stored),
        ("stored twice", verdict.duplicates),
        *(
            (f"delivered to {group}", f"{book.deliveries[group]} ({way.name.lower()})")
            for group, way in ways(seed).items()
        ),
        *(
            (f"{what}: calls, slowest s", f"{book.calls[what]}, {seconds:.2f}")
            for what, seconds in sorted(book.slowest.items())
        ),
        *((kind, len(found)) for kind, found in verdict.violations.items()),
        ("seconds", f"{outcome.seconds:.1f}"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


if __name__ == "__main__":
    sys.exit(main())
