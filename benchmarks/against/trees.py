"""The trees of two commits: this one where it stands, and the other beside it, in a worktree that goes again.

Both run in the same environment, and the same programs measure both: the folder `benchmarks` of the other tree is
replaced by that of this one. What its own programs are (the quickstart) stays its own.
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
"""What is not committed of these would be measured under the name of a commit."""
_WHERE = "import rocketpy; print(rocketpy.__file__)"
_SHORT = 10


@dataclass(frozen=True)
class Tree:
    """A tree that can be measured.

    Attributes:
        path: Where it stands.
        title: For readers.
        commit: In full.
    """

    path: Path
    title: str
    commit: str


def this_tree(*, dirty: bool = False, root: Path = ROOT) -> Tree:
    """The one that this program runs from.

    Args:
        dirty: Whether it may hold changes that no commit has.
        root: Where it stands.

    Raises:
        BenchmarkError: it holds such changes, or git knows nothing of it.
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
    """The commit that a name stands for.

    Raises:
        BenchmarkError: none.
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
    """The tree of a commit, ready to be measured; it is gone after the block.

    Raises:
        BenchmarkError: there is no such commit, or another run holds the place.
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
    """Let nobody else have a tree there: whatever lies there then was left by a run that was killed."""
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
    """Whether git still knows of it or not."""
    command = ["git", "worktree", "remove", "--force", str(path)]
    subprocess.run(command, cwd=root, env=_env(), capture_output=True, check=False)
    shutil.rmtree(path, ignore_errors=True)


def check_imports(tree: Tree) -> None:
    """Make sure that programs in the tree get the package of the tree, not the one that is installed.

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
    """What git prints.

    Raises:
        BenchmarkError: it fails.
    """
    try:
        done = subprocess.run(["git", *arguments], cwd=at, env=_env(), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BenchmarkError("--against needs git, and there is none on PATH") from None
    if done.returncode:
        raise BenchmarkError(f"git {arguments[0]} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _env() -> dict[str, str]:
    """Without what a hook of git sets, which would have git look at another tree."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
