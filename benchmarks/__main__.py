"""``python -m benchmarks [NAME...] [--rounds N] [--json FILE]``: measure, and print the tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import slow_brokers, statistics_cost
from benchmarks.against.command import main as against
from benchmarks.bars import APACHE, PEERS, SURFACE_ROUNDS
from benchmarks.budget import Budget
from benchmarks.measure import Size
from benchmarks.peers.work import available
from benchmarks.plan import CONSUMER, PRODUCER, ROUNDS, SURFACES, measures, rounds_for, waiting_for, wants_ours
from benchmarks.plot import plot
from benchmarks.report import report
from benchmarks.rounds import Results, run
from benchmarks.servers import OURS, Servers, apache, apache_release
from benchmarks.spark import pipeline_plan as pipeline
from benchmarks.spark import plan as spark
from benchmarks.spark.pipeline import run as run_pipeline
from benchmarks.spark.run import run as run_spark
from benchmarks.store import plan as store
from benchmarks.store.measure import Scale
from benchmarks.store.run import run as run_store
from benchmarks.store.timeline import draw
from benchmarks.table import render
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.peers.peer import PeerMake

SPARK_ROWS = 2_000_000
SAMPLE_SECONDS = 0.6


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure; print tables with medians.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="only these figures, and the raw loops beside them; surfaces: those of sending from trio, threads and "
        "asyncio, on Apache's servers alone; consumer: those of consuming 700,000 messages, likewise, and of what "
        "consumers cost our broker; producer: linger, transactions, traces, closing, memory, timers, and at the "
        "end slow-brokers; store: those of the store; spark: reads, writes and streams with Spark; spark-sink: the "
        "sink for Spark; slow-brokers: 64 senders while brokers are slow; "
        "statistics: sends with statistics and without",
    )
    parser.add_argument("--list", action="store_true", help="say which names there are")
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"how often each figure is taken ({ROUNDS}; {SURFACES}, {CONSUMER} and {PRODUCER} {SURFACE_ROUNDS}; of "
        "the store 1)",
    )
    parser.add_argument("--rows", type=int, help=f"that Spark sends or reads for one sample ({SPARK_ROWS:,})")
    parser.add_argument(
        "--seconds",
        type=float,
        help=f"how long one sample takes ({SAMPLE_SECONDS}; {slow_brokers.NAME} {slow_brokers.SECONDS:g}, "
        f"{statistics_cost.NAME} {statistics_cost.SECONDS:g})",
    )
    parser.add_argument("--ours-only", action="store_true", help="leave Apache's servers out")
    parser.add_argument("--no-peers", action="store_true", help="leave clients of other makes out")
    parser.add_argument("--against", metavar="REV", help="compare this tree with that of another commit")
    parser.add_argument("--dirty", action="store_true", help="with --against: this tree as it is, committed or not")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the bars (wants matplotlib)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample")
    options = parser.parse_args(words)
    if options.seconds is None:
        by_themselves = {slow_brokers.NAME: slow_brokers.SECONDS, statistics_cost.NAME: statistics_cost.SECONDS}
        options.seconds = by_themselves.get(options.names[0] if len(options.names) == 1 else "", SAMPLE_SECONDS)
    return options


def company(
    options: argparse.Namespace, wanted: Collection[str]
) -> tuple[list[Servers], list[PeerMake], dict[str, str]]:
    """Return the available servers and peers, and why others are not available."""
    beside = "it was left out (--ours-only)" if options.ours_only else apache()
    if isinstance(beside, str):
        return [OURS], [], dict.fromkeys((APACHE, *PEERS), beside)
    found, missing = [], {}
    for name in PEERS:
        make = "it was left out (--no-peers)" if options.no_peers else available(name) if name in wanted else None
        if isinstance(make, str):
            missing[name] = make
        elif make is not None:
            found.append(make)
    return [OURS, beside] if wants_ours(options.names) else [beside], found, missing


def main() -> int:
    """Measure what the command line names."""
    options = arguments()
    try:
        if options.against is not None:
            return against(options)
        if options.names == [slow_brokers.NAME]:
            return slow_brokers.main(["--seconds", str(options.seconds)])
        if options.names == [statistics_cost.NAME]:
            return statistics_cost.main(["--seconds", str(options.seconds)])
        if not options.list and not {slow_brokers.NAME, PRODUCER}.isdisjoint(options.names):
            options.names = [name for name in options.names if name != slow_brokers.NAME]
            return measured(options) or slow_brokers.main([])
        return measured(options)
    except BenchmarkError as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def measured(options: argparse.Namespace) -> int:
    """Measure everything except slow brokers and print the results; or list the names."""
    if store.is_asked_for(options.names):
        return store_main(options)
    if spark.is_asked_for(options.names) or pipeline.is_asked_for(options.names):
        return spark_main(options)
    chosen = measures(options.names)
    if options.list:
        print("\n".join(f"{row.name:<18} {row.title}" for measure in chosen for row in measure.rows))
        return 0
    makes, peers, missing = company(options, {measure.peer for measure in chosen})
    size = Size(budget=Budget(options.seconds, 10**9))
    size = replace(size, filled=waiting_for(options.names, size.filled))
    rounds = max(1, options.rounds or rounds_for(options.names))
    return publish(run(chosen, makes, missing, rounds=rounds, size=size, peers=peers), options)


def store_main(options: argparse.Namespace) -> int:
    """Measure the store by itself, because its measures start their own servers and need the whole machine."""
    chosen = store.chosen(options.names)
    if options.list:
        print("\n".join(f"{row.name:<22} {row.title}" for measure in chosen for row in measure.rows))
        return 0
    release = "it was left out (--ours-only)" if options.ours_only else apache_release()
    missing = {APACHE: release} if isinstance(release, str) else {}
    beside = None if isinstance(release, str) else release
    return publish(run_store(chosen, beside, missing, rounds=max(1, options.rounds or 1), scale=Scale()), options)


def spark_main(options: argparse.Namespace) -> int:
    """Measure everything of the sink, of the format, or of both, because each figure is compared with the others."""
    sink, rest = spark.is_asked_for(options.names), pipeline.is_asked_for(options.names)
    if options.list:
        rows = (*(spark.ROWS if sink else ()), *(pipeline.ROWS if rest else ()))
        print("\n".join(f"{row.name:<22} {row.title.strip()}" for row in rows))
        return 0
    rounds, rows_each = max(1, options.rounds or 3), max(1, options.rows or SPARK_ROWS)
    status = publish(run_spark(rounds=rounds, rows=rows_each), options) if sink else 0
    if rest:
        status |= publish(run_pipeline(rounds=rounds, extent=pipeline.Extent(rows_each)), options)
    return status


def publish(results: Results, options: argparse.Namespace) -> int:
    """Print the results of a run, and write the files that the command line names."""
    verdicts = results.verdicts()
    print(f"{results.where()}\n\n{render(results)}")
    if verdicts:
        print("\n" + report(verdicts, {row.name: row.unit for row in results.rows}))
    if options.json:
        options.json.write_text(json.dumps(results.to_json(), indent=1), "utf-8")
    for timeline in results.timelines:
        print(f"\n{timeline.text()}")
    if options.plot:
        try:
            plot(verdicts, options.plot, results.where())
            for timeline in results.timelines[-1:]:
                draw(timeline, options.plot.with_stem(f"{options.plot.stem}-latency"), results.where())
        except BenchmarkError as error:
            print(f"\nbench: {error}", file=sys.stderr)
            return 1
    for failure in results.failures:
        print(f"\nbench: not measured: {failure}", file=sys.stderr)
    return 1 if results.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
