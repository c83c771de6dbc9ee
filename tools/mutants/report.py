"""What is said at the end: a table of packages, and the survivors with their changes."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.mutants.job import Verdict
from tools.mutants.operators import Mutant
from tools.mutants.sample import Sources

STATES = ("killed", "timed out", "survived", "not covered")
KILLED = ("killed", "timed out")


def change(sources: Sources, mutant: Mutant) -> Iterator[str]:
    """Yield the lines that a mutant changes, as a diff without its head."""
    before = sources.files[mutant.path].data.decode().splitlines()
    after = sources.mutated(mutant).splitlines()
    for line in list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]:
        if not line.startswith("@@") and line.strip("+"):
            yield line


def table_of(sources: Sources, verdicts: Sequence[Verdict]) -> Table:
    """Return how many mutants of each package ended how."""
    table = Table("package", *STATES, "all", "killed, of all")
    rows = {package: [v for v in verdicts if v.name.startswith(package + "/")] for package in sources.packages}
    for package, those in (rows | {"all": list(verdicts)}).items():
        counted = Counter(verdict.state for verdict in those)
        killed = sum(counted[state] for state in KILLED)
        share = f"{killed / len(those):.1%}" if those else ""
        table.add_row(package, *(str(counted[state]) for state in STATES), str(len(those)), share)
    return table


def show(console: Console, sources: Sources, mutants: Sequence[Mutant], verdicts: Sequence[Verdict]) -> None:
    """Print survivors and table."""
    of_name = {mutant.name: mutant for mutant in mutants}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.name):
        if verdict.state not in KILLED:
            left_out = f", {verdict.left_out} more left out" if verdict.left_out else ""
            console.print(f"{verdict.name}: {verdict.state} ({verdict.tests} tests{left_out})", markup=False)
            for line in change(sources, of_name[verdict.name]):
                console.print(f"    {line}", markup=False)
    console.print(table_of(sources, verdicts))


def write(path: Path, seed: int, sources: Sources, mutants: Sequence[Mutant], verdicts: Sequence[Verdict]) -> None:
    """Write all that is known so far."""
    of_name = {mutant.name: mutant for mutant in mutants}
    rows: list[dict[str, Any]] = [
        verdict.as_json() | {"change": list(change(sources, of_name[verdict.name]))} for verdict in verdicts
    ]
    path.write_text(json.dumps({"seed": seed, "count": len(mutants), "mutants": rows}, indent=1) + "\n", "utf-8")
