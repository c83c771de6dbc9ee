"""``python -m benchmarks [NAME...] [--rounds N] [--json FILE]``: measure, and print the tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bars import APACHE
from benchmarks.budget import Budget
from benchmarks.plan import Size, measures
from benchmarks.report import report
from benchmarks.rounds import run
from benchmarks.servers import OURS, apache
from benchmarks.table import render
from benchmarks.trouble import BenchmarkError


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure; print tables with medians.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these figures, and the raw loops beside them")
    parser.add_argument("--list", action="store_true", help="say which names there are")
    parser.add_argument("--rounds", type=int, default=3, help="how often each figure is taken (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.6, help="how long one sample takes (%(default)s)")
    parser.add_argument("--ours-only", action="store_true", help="leave Apache's servers out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample")
    return parser.parse_args(words)


def main() -> int:
    """Measure what the command line asks for."""
    options = arguments()
    try:
        chosen = measures(options.names)
        if options.list:
            print("\n".join(f"{row.name:<14} {row.title}" for measure in chosen for row in measure.rows))
            return 0
        beside = "it was left out (--ours-only)" if options.ours_only else apache()
        makes, missing = ([OURS], {APACHE: beside}) if isinstance(beside, str) else ([OURS, beside], {})
        size = Size(budget=Budget(options.seconds, 10**9))
        results = run(chosen, makes, missing, rounds=max(1, options.rounds), size=size)
    except BenchmarkError as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(render(results))
    if verdicts := results.verdicts():
        print("\n" + report(verdicts, {row.name: row.unit for row in results.rows}))
    if options.json:
        options.json.write_text(json.dumps(results.to_json(), indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
