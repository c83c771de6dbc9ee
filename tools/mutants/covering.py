"""Which tests run a line, and how long each takes: found once for a tree, by coverage, and kept in `.cache`."""

from __future__ import annotations

import ast
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage

from tools.ending import end_session
from tools.mutants.noting import NOTES
from tools.mutants.operators import Mutant
from tools.mutants.trees import copy_tree, digest_of, environment_of, files_of

PYTEST = ["-m", "pytest", "-q", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider"]
RAN = (0, 1)
"""What pytest exits with when the tests ran to their end, whether they passed or not."""
IMPORT = ""
"""The context of what runs before the first test."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tests that may notice a mutant, the most promising first."""

    tests: Sequence[str]
    at_import: bool
    """The line runs at import, so that the process must start with it."""


class Covering:
    """The lines that every test ran."""

    def __init__(self, lines: Path, notes: Path) -> None:
        self._data = coverage.CoverageData(str(lines))
        self._data.read()
        noted = json.loads(notes.read_text("utf-8"))
        self.seconds: dict[str, float] = {name: test["seconds"] for name, test in noted.items() if test["passed"]}
        self.failed = [name for name, test in noted.items() if not test["passed"]]
        self._order = {name: number for number, name in enumerate(noted)}
        self._of_files: dict[str, dict[int, list[str]]] = {}
        self._importers: dict[str, set[str]] = defaultdict(set)

    def read_imports(self, sources: Iterable[tuple[str, ast.Module]]) -> None:
        """Learn which files import which."""
        for path, tree in sources:
            for module in _imported(tree):
                self._importers[module].add(path)

    def candidates(self, mutant: Mutant) -> Candidates:
        """Return the tests that run its line.

        A line that runs at import runs for every test: then it is those that run anything in its file, those of the
        tests' folder of the same name, and those that run anything in a file that imports it.
        """
        contexts = set(self._lines(mutant.path).get(mutant.line, ()))
        at_import = IMPORT in contexts or not mutant.in_function
        groups = [contexts]
        if at_import:
            groups += [self._of_file(mutant.path), self._of_folder(mutant.path), self._of_importers(mutant.path)]
        tests: dict[str, None] = {}
        for group in groups:
            tests.update(dict.fromkeys(sorted(group & self.seconds.keys(), key=self.seconds.__getitem__)))
        return Candidates(list(tests), at_import)

    def in_order(self, tests: Iterable[str]) -> list[str]:
        """Return tests as pytest runs them, so that what fixtures share is made once."""
        return sorted(tests, key=self._order.__getitem__)

    def _lines(self, path: str) -> dict[int, list[str]]:
        if path not in self._of_files:
            self._of_files[path] = self._data.contexts_by_lineno(path)
        return self._of_files[path]

    def _of_file(self, path: str) -> set[str]:
        return {name for names in self._lines(path).values() for name in names}

    def _of_folder(self, path: str) -> set[str]:
        _, package, *_ = Path(path).parts
        folders = (f"tests/{package}/", f"tests/broker_sim/{package}/")
        return {name for name in self.seconds if name.startswith(folders)}

    def _of_importers(self, path: str) -> set[str]:
        importers = self._importers[path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")]
        return {name for importer in importers for name in self._of_file(importer)}


def _imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def covering_of(root: Path, marks: str, packages: Iterable[str]) -> Covering:
    """Return what is kept for the tree as it is; run the tests under coverage where nothing is."""
    files = files_of(root)
    kept = root / ".cache" / "mutants" / f"{digest_of(root, files)}"
    if not (kept / "notes.json").exists():
        shutil.rmtree(kept.parent, ignore_errors=True)
        kept.mkdir(parents=True)
        with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
            _measure(root, files, Path(folder), marks, packages)
            for name in ("lines.sqlite", "notes.json"):
                shutil.move(Path(folder) / name, kept / name)
    return Covering(kept / "lines.sqlite", kept / "notes.json")


def _measure(root: Path, files: Sequence[str], folder: Path, marks: str, packages: Iterable[str]) -> None:
    tree, settings = folder / "tree", folder / "coveragerc"
    copy_tree(root, files, tree)
    data = folder / "lines.sqlite"
    source = ",".join(sorted({Path(package).parts[0] for package in packages}))
    said = f"[run]\nbranch = true\nrelative_files = true\nsource = {source}\ndata_file = {data}\n"
    settings.write_text(said, "utf-8")
    notes = folder / "notes.json"
    environment = environment_of(tree, folder / "t", **{NOTES: str(notes)})
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}"]
    command += [*PYTEST, "-p", "tools.mutants.noting", "-m", marks]
    process = subprocess.Popen(command, cwd=tree, env=environment, start_new_session=True)
    try:
        status = process.wait()
    finally:
        end_session(process, signal.SIGINT)  # at which pytest tears down what its tests have set up
    if status not in RAN or not notes.exists():
        raise SystemExit("mutants: the tests did not run to their end under coverage; pytest's words stand above")
