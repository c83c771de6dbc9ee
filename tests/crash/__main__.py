"""The crash-point runner: `python -m tests.crash --points 10000 --seed 1`; 200000 for the whole plan."""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections.abc import Sequence

from tests.crash.runner import PLAN, Count, plan, run_jobs, run_point
from tools.amounts import whole_number


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.replay:
        count = run_point(options.replay)
        print("\n".join(count.texts) or "this point shows no violation")
        return 1 if count.violations else 0
    logging.disable(logging.CRITICAL)  # planning plays some workloads, too
    kinds = options.kinds or list(PLAN)
    jobs = plan(options.points, options.seed, kinds)
    counts = {kind: Count() for kind in kinds}
    begin = time.monotonic()
    planned = sum(len(job.numbers) for job in jobs)
    for job, count in run_jobs(jobs, options.processes):
        counts[job.kind].add(count)
        _progress(sum(each.points for each in counts.values()), planned, counts)
    return report(counts, planned, time.monotonic() - begin, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--points", type=whole_number, default=10_000, help="crash points in all (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of every choice (default %(default)s)")
    parser.add_argument(
        "--class", dest="kinds", action="append", choices=list(PLAN), help="only this class; repeatable"
    )
    parser.add_argument("--replay", type=point, metavar="LINE", help="try one point again, e.g. T3:123:1")
    parser.add_argument("--processes", type=whole_number, help="how many at once (default: one a core)")
    return parser.parse_args(arguments)


def point(line: str) -> str:
    """Return a line that names a point, as reports print it; what follows on the line is for people."""
    kind, _, rest = line.split(maxsplit=1)[0].partition(":") if line.strip() else ("", "", "")
    if kind not in PLAN or not re.fullmatch(r"\d+:-?\d+", rest):
        raise argparse.ArgumentTypeError(
            f"{line!r} names no point; it takes CLASS:NUMBER:SEED, such as T3:123:1, with a class of {', '.join(PLAN)}"
        )
    return line


def _progress(done: int, planned: int, counts: dict[str, Count]) -> None:
    if not sys.stderr.isatty():
        return
    bar = "#" * (40 * done // planned)
    violations = sum(each.violations for each in counts.values())
    end = "\n" if done == planned else ""
    print(f"\r[{bar:<40}] {done}/{planned} points, {violations} violations", end=end, file=sys.stderr, flush=True)


def report(counts: dict[str, Count], planned: int, seconds: float, options: argparse.Namespace) -> int:
    """Print the table; the exit status."""
    print(f"{'class':6}{'points':>8}{'fired':>8}{'acked':>9}{'refused':>9}{'violations':>12}  what")
    total = Count()
    for kind, count in counts.items():
        print(_row(kind, count, PLAN[kind][2]))
        total.add(count)
    print(_row("all", total, f"{seconds:.0f} s, {total.points / max(total.seconds, 0.001):.0f} points/s and core"))
    for text in total.texts:
        print(text)
    failures = _failures(counts, total, planned)
    for failure in failures:
        print(f"FAILED: {failure}")
    if total.texts:
        print("repeat one with: python -m tests.crash --replay CLASS:NUMBER:SEED")
    return 1 if failures else 0


def _row(name: str, count: Count, text: str) -> str:
    return (
        f"{name:6}{count.points:>8}{count.fired:>8}{count.acknowledged:>9}{count.refused:>9}"
        f"{count.violations:>12}  {text}"
    )


def _failures(counts: dict[str, Count], total: Count, planned: int) -> list[str]:
    """Why the run does not count, or what it has found."""
    found = []
    if total.violations:
        found.append(f"{total.violations} points broke a promise")
    if total.points < planned:
        found.append(f"only {total.points} of {planned} points were tried")
    found += [
        f"{kind}: the fault fired at {count.fired} of {count.points} points only"
        for kind, count in counts.items()
        if count.fired < 0.8 * count.points
    ]
    found += [
        f"{kind}: something was promised at {count.covered} of {count.points} points only"
        for kind, count in counts.items()
        if count.covered < 0.5 * count.points
    ]
    return found


if __name__ == "__main__":
    sys.exit(main())
