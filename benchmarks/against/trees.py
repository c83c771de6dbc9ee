"""The trees of two commits: this one in place, and the other in a worktree that is removed at the end.

Both run in the same environment and are measured by the same programs: the folder `benchmarks` of the other tree is
replaced by that of this one. Only programs that are measured themselves (the quickstart) are each tree's own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import ROOT, Child
from benchmarks.trouble import BenchmarkError

PLACE = ROOT / ".cache" / "against"
PROGRAMS = "benchmarks"
MEASURED = ("rocketpy", "rocketpy_broker_sim", "examples", PROGRAMS)
"""Uncommitted changes in these paths would be reported under a commit that does not contain them."""
_WHERE = "import rocketpy; print(rocketpy.__file__)"
_SHORT = 10


@dataclass(frozen=True)
class Tree:
    """A tree that can be measured.

    Attributes:
        path: Its directory.
        title: Its name for readers.
        commit: The full hash of its commit.
    """

    path: Path
    title: str
    commit: str


def this_tree(*, dirty: bool = False, root: Path = ROOT) -> Tree:
    """Return the tree that this program runs from.

    Args:
        dirty: Whether it may have uncommitted changes.
        root: Its directory.

    Raises:
        BenchmarkError: it has uncommitted changes although `dirty` is false, or is not in a git repository.
    """
    commit = commit_of("HEAD", root)
    changes = git("status", "--porcelain", "--", *MEASURED, at=root).splitlines()
    if changes and not dirty:
        names = ", ".join(line[3:] for line in changes[:3]) + (" and more" if len(changes) > 3 else "")
        raise BenchmarkError(
            f"this tree has changes that no commit holds ({names}): commit them, or measure them with --dirty"
        )
    return Tree(root, f"{commit[:_SHORT]} with changes" if changes else commit[:_SHORT], commit)


def commit_of(revision: str, root: Path = ROOT) -> str:
    """Return the commit that a name stands for.

    Raises:
        BenchmarkError: there is no such commit.
    """
    git("rev-parse", "--git-dir", at=root)
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return git(*asked, at=root).strip()
    except BenchmarkError:
        raise BenchmarkError(
            f"there is no commit called {revision!r} here: `git log --oneline` lists some, `git fetch` brings others"
        ) from None


@contextmanager
def checked_out(revision: str, *, root: Path = ROOT, place: Path = PLACE) -> Iterator[Tree]:
    """Check out a commit, ready to be measured, and remove it after the block.

    Raises:
        BenchmarkError: there is no such commit, or another run is using the directory.
    """
    commit = commit_of(revision, root)
    with _alone(place):
        for leftover in place.glob("tree-*"):
            _remove(leftover, root)
        path = place / f"tree-{os.getpid()}"
        try:
            git("-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach", str(path), commit, at=root)
            _bring_programs(root, path)
            yield Tree(path, f"{revision} ({commit[:_SHORT]})", commit)
        finally:
            _remove(path, root)


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Lock the directory. Anything in it afterwards was left by a run that was killed."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("a+b") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchmarkError(
                f"another --against runs in this tree (it holds {place / 'lock'}): two would measure each other"
            ) from None
        yield


def _bring_programs(root: Path, path: Path) -> None:
    shutil.rmtree(path / PROGRAMS, ignore_errors=True)
    shutil.copytree(root / PROGRAMS, path / PROGRAMS, ignore=shutil.ignore_patterns("__pycache__"))


def _remove(path: Path, root: Path) -> None:
    """Remove the worktree, whether or not git still knows it."""
    command = ["git", "worktree", "remove", "--force", str(path)]
    subprocess.run(command, cwd=root, env=_env(), capture_output=True, check=False)
    shutil.rmtree(path, ignore_errors=True)


def check_imports(tree: Tree) -> None:
    """Check that programs in the tree import its own package, not the installed one.

    Raises:
        BenchmarkError: they do not.
    """
    child = Child("-c", _WHERE, tree=tree.path)
    try:
        found = Path(child.line())
    finally:
        child.kill()
    if not found.is_relative_to(tree.path):
        raise BenchmarkError(f"{tree.title} cannot be measured: its programs import {found}, which is of another tree")


def git(*arguments: str, at: Path = ROOT) -> str:
    """Return the output of git.

    Raises:
        BenchmarkError: git fails, or is not installed.
    """
    try:
        done = subprocess.run(["git", *arguments], cwd=at, env=_env(), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BenchmarkError("--against needs git, and there is none on PATH") from None
    if done.returncode:
        raise BenchmarkError(f"git {arguments[0]} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _env() -> dict[str, str]:
    """Return the environment without the variables that git hooks set, which would make git use another tree."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
