"""python -m tests.hostile [--page FILE] [CODE...]: attack all request codes, or some, and print what became of each.

Without a code, floods and crowds are tried as well, by the tests of them.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.hostile.codes import run
from tests.hostile.measure import TRIES
from tests.hostile.report import Given, Report
from tests.hostile.routed import NOT_SUPPORTED, Routed, routed
from tests.hostile.world import running

FLOODS = "floods"


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments)
    if options.list:
        print("\n".join(named()))
        return 0
    report, bad = Report(), 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as home, running(Path(home)) as world:
        for each in options.chosen:
            result = run(world, each, most_tries=1 if options.once else TRIES)
            report.note(result)
            # After each, so that a run that is broken off leaves what it has found.
            if options.page:
                report.write(options.page)
            if options.known:
                write_known(options.known, report)
            faults = sum(bool(reading.faults) for reading in result.readings)
            bad += faults
            print(f"{each}: {len(result.readings)} attacks, {faults} with faults", flush=True)
            for reading in result.readings:
                if reading.faults or options.all:
                    print(f"  {reading}")
                for fault in reading.faults:
                    print(f"      {fault[:800]}", flush=True)
    if not options.codes or FLOODS in options.codes:
        bad += floods(report) != 0
        if options.page:
            report.write(options.page)
    return 1 if bad else 0


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says; what cannot be done is refused before a server starts."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("codes", nargs="*", help=f"such as broker-HEART_BEAT, or {FLOODS}; all when none is named")
    parser.add_argument("--list", action="store_true", help="name all codes, and attack nothing")
    parser.add_argument("--page", type=Path, help="write the page of the documentation to this file")
    parser.add_argument("--once", action="store_true", help="try nothing again that went wrong")
    parser.add_argument("--known", type=Path, help="write what fails as the list of what is known to fail")
    parser.add_argument("--all", action="store_true", help="show what went well, too")
    options = parser.parse_args(arguments)
    for code in options.codes:
        if code not in {*named(), FLOODS}:
            parser.error(unknown(code))
    for path in filter(None, (options.page, options.known)):
        if not path.parent.is_dir():
            parser.error(f"{path} cannot be written: there is no folder {path.parent}")
    if options.known and not options.known.is_file():
        parser.error(f"--known rewrites the list in a file, and {options.known} is none; give tests/hostile/known.py")
    options.chosen = [each for name, each in named().items() if not options.codes or name in options.codes]
    return options


def named() -> dict[str, Routed]:
    """All codes by the names that the command line knows."""
    return {str(each): each for each in [*routed(), NOT_SUPPORTED]}


def unknown(code: str) -> str:
    """Return what to say of a code that nobody answers: which ones are named alike, and how to see all."""
    parts = {name: name.partition("-")[2].lower() for name in named()}
    wanted = code.lower().replace("-", "_")
    near = [name for name, part in parts.items() if wanted in part or wanted in name.lower().replace("-", "_")]
    alike = difflib.get_close_matches(wanted, [*parts.values()], n=3)
    near += [name for name, part in parts.items() if part in alike and name not in near]
    meant = f"; did you mean {', '.join(near[:6])}?" if near else ";"
    return f"no code {code!r}{meant} `./dev hostile --list` names all of them"


def floods(report: Report) -> int:
    """Run the tests of floods, crowds, large tables and metrics, which note in the report what they find."""
    names = ("test_crowds", "test_tables", "test_bounds_of_tables", "test_metrics_port")
    files = [str(Path(__file__).parent / f"{name}.py") for name in names]
    # Modules of the tests are there already, without pytest's own texts of assertions.
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return pytest.main([*options, *files], plugins=[Given(report)])


def write_known(path: Path, report: Report) -> None:
    """The list of `known`, as this run would have it."""
    head, _, _ = path.read_text("utf-8").partition("KNOWN: ")
    lines = []
    for name, result in report.results.items():
        failing = sorted(reading.name for reading in result.readings if reading.faults)
        if failing:
            lines.append(f"    {name!r}: frozenset({failing!r}),\n")
    path.write_text(f"{head}KNOWN: dict[str, frozenset[str]] = {{\n{''.join(lines)}}}\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
