"""What the command line of `./dev mutants` may say; what would try nothing is refused before anything is measured."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.amounts import seconds, whole_number
from tools.mutants import report
from tools.mutants.sample import PACKAGES


@dataclass(frozen=True, slots=True)
class Earlier:
    """A mutant of an earlier run."""

    name: str
    killed: bool


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line says: `only` as whole names of packages, `again` as the mutants of that file."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for package in options.packages:
        if not any((options.tree / package).rglob("*.py")):
            parser.error(f"there is no Python in {options.tree / package}; --tree takes the top of a checkout")
    options.only = [_package(parser, name, options.packages) for name in options.only]
    if options.survivors and options.again is None:
        parser.error("--survivors leaves out what was killed in an earlier run; name its file with --again")
    if options.json:
        _check_writable(parser, options.json)
    if options.again is not None:
        options.again = _read(parser, options.again)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev mutants",
        description="Try a sample of small changes to the library; list those that no test notices.",
    )
    parser.add_argument("--seed", type=int, default=1, help="which sample; the same code gives the same one (1)")
    parser.add_argument("--count", type=whole_number, default=300, help="how many mutants (300)")
    parser.add_argument("--jobs", type=whole_number, default=1, help="how many at once (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there, after each mutant")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PACKAGE", help="mutants of this package alone; repeatable"
    )
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="the mutants of a file that --json wrote, in place of a sample"
    )
    parser.add_argument("--survivors", action="store_true", help="with --again: only those that were not killed")
    parser.add_argument("--list", action="store_true", help="name the mutants and try none")
    parser.add_argument("--budget", type=seconds, default=60, help="seconds of tests for one mutant (60)")
    parser.add_argument("--tree", type=Path, default=Path.cwd(), help="the tree to change a copy of (this one)")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help=argparse.SUPPRESS)
    parser.add_argument(
        "--marks",
        default="",
        help="which tests: pytest's -m (dev's need no servers of Apache's, no Spark)",
    )
    return parser


def _package(parser: argparse.ArgumentParser, name: str, packages: Sequence[str]) -> str:
    """Return the package of this name, which may be its last part alone."""
    for package in packages:
        if name.rstrip("/") in {package, package.rpartition("/")[2]}:
            return package
    parser.error(f"--only: no package {name!r}; there are {', '.join(packages)}")


def _check_writable(parser: argparse.ArgumentParser, path: Path) -> None:
    if not path.parent.is_dir():
        parser.error(f"--json: {path} cannot be written: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        parser.error(f"--json: {path} cannot be written")


def _read(parser: argparse.ArgumentParser, path: Path) -> list[Earlier]:
    """Return the mutants of a report of an earlier run."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as exc:
        parser.error(f"--again: {path} cannot be read: {exc}")
    try:
        return [Earlier(str(row["name"]), row["state"] in report.KILLED) for row in json.loads(text)["mutants"]]
    except (ValueError, LookupError, TypeError):
        parser.error(f"--again: {path} does not hold the mutants of an earlier run; --json FILE writes them")
