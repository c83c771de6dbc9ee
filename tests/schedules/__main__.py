"""``python -m tests.schedules [--count N] [--seed S]``: run schedules from a seed on, and say what was broken.

With ``--producers`` they are schedules of producers. With ``--cover N`` it also says which N of them have everything
together, for `tests.schedules.quick`.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.checker import Group, Send, Violation
from tests.schedules.judge import judge
from tests.schedules.plan import plan
from tests.schedules.producers.judge import judge as judge_producers
from tests.schedules.producers.plan import plan as plan_producers
from tests.schedules.producers.quick import LEAST as LEAST_OF_PRODUCERS
from tests.schedules.producers.run import run as run_producers
from tests.schedules.quick import LEAST, cover, had
from tests.schedules.run import run

Tried = tuple[list[Send], Iterable[Group], list[Violation], Counter[str]]
"""What one schedule came to: its sends, its groups of consumers, what was broken, and what happened."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.schedules", description="Groups of consumers under churn, or producers."
    )
    parser.add_argument("--producers", action="store_true", help="schedules of producers, not of groups of consumers")
    parser.add_argument("--count", type=int, default=200, help="how many schedules (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first one; each has the next number (%(default)s)")
    parser.add_argument(
        "--cover",
        type=int,
        default=0,
        help="of how many of them to print the seeds, chosen so that every event is there",
    )
    parser.add_argument("--log", action="store_true", help="show what clients and brokers log")
    return parser.parse_args(words)


def of_groups(seed: int) -> Tried:
    """A schedule of groups of consumers."""
    history = run(plan(seed))
    return history.sends, history.groups.values(), judge(history), had(history)


def of_producers(seed: int) -> Tried:
    """A schedule of producers."""
    made = plan_producers(seed)
    history = run_producers(made)
    return history.sends, history.groups.values(), judge_producers(history, made), history.had


def main(words: Sequence[str] | None = None) -> int:
    """Return 1 when a promise was broken, or nothing was tried."""
    options = arguments(words)
    for name in ("rocketpy", "rocketpy_broker_sim"):
        logging.getLogger(name).setLevel(logging.DEBUG if options.log else logging.CRITICAL)
    if options.log:
        logging.basicConfig(stream=sys.stdout)
    broken = sends = deliveries = 0
    course = hashlib.sha256()
    events: dict[int, Counter[str]] = {}
    work: dict[int, int] = {}
    for seed in range(options.seed, options.seed + options.count):
        sent, groups, violations, happened = (of_producers if options.producers else of_groups)(seed)
        sends += len(sent)
        got = [each for group in groups for each in group.deliveries]
        deliveries += len(got)
        course.update(repr((sent, got)).encode())
        events[seed], work[seed] = happened, len(sent) + len(got)
        broken += bool(violations)
        for violation in violations:
            print(f"seed {seed}: {violation}", flush=True)
    print(f"{options.count} schedules, {sends} sends, {deliveries} deliveries, {broken} with a broken promise")
    if options.cover:
        least = LEAST_OF_PRODUCERS if options.producers else LEAST
        print("together they have everything:", *cover(events, work, options.cover, least))
    print(f"course {course.hexdigest()[:16]}")
    return 1 if broken or not deliveries else 0


if __name__ == "__main__":
    sys.exit(main())
