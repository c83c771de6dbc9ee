"""A look at this machine: Python, packages, Java, Spark, ports, disk, and who owns the name `rocketpy`.

Every check yields rows of a name, a state ("ok", "warn" or "FAIL") and what was found.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tools.asking import json_of, version_of
from tools.newer_python import newer_pythons
from tools.trouble import say

if TYPE_CHECKING:
    from tools.environment import Environment

Row = tuple[str, str, str]
OWNERS = """
import importlib.metadata as m, importlib.util as u, json, sys
sys.path = [p for p in sys.path if p]
spec = u.find_spec("rocketpy")
names = [(d.metadata["Name"] or "?", d.version) for d in m.distributions()]
print(json.dumps([spec and (spec.origin or list(spec.submodule_search_locations)[0]), names]))
"""
PYSPARK = """
import json, re
from importlib.util import find_spec
from pathlib import Path
text = Path(find_spec("pyspark").origin).with_name("version.py").read_text()
print(json.dumps(re.search('__version__.*"(.+)"', text)[1]))
"""


@dataclasses.dataclass(frozen=True)
class Tree:
    """What `dev` knows of its own tree.

    Attributes:
        root: Where it is.
        python: The interpreter of its environment.
        groups: The dependency groups installed there; None when there is no environment that could be used.
        needed: The requirements of the library itself.
        second_spark: Where the older PySpark is, or would be.
    """

    root: Path
    python: Path
    groups: frozenset[str] | None
    needed: tuple[str, ...]
    second_spark: Path


def report(environment: Environment, needed: tuple[str, ...], second_spark: Path) -> int:
    """Print all that was found; return 1 where something stands in the way.

    Args:
        environment: The one that tasks run in.
        needed: The requirements of the library itself.
        second_spark: Where the older PySpark is, or would be.
    """
    groups = environment.groups()
    tree = Tree(
        root=environment.root,
        python=environment.python,
        groups=None if groups is None else frozenset(groups),
        needed=needed,
        second_spark=second_spark,
    )
    rows = examine(tree)
    width = max(len(name) for name, _, _ in rows)
    for name, state, detail in rows:
        say(f"{name:<{width}}  {state:<4}  {detail}")
    failed = [name for name, state, _ in rows if state == "FAIL"]
    say(f"doctor: {'FAILED: ' + ', '.join(failed) if failed else 'nothing stands in the way'}")
    return 1 if failed else 0


def examine(tree: Tree) -> list[Row]:
    """Look at everything."""
    return [
        *check_python(tree),
        *check_packages(tree),
        *check_java(),
        *check_spark(tree),
        *check_network(),
        *check_disk(tree.root),
    ]


def check_python(tree: Tree) -> Iterator[Row]:
    """The interpreter and the environment."""
    yield "Python", "ok", f"{sys.version.split()[0]} ({sys.executable})"
    if tree.groups is None:
        yield "environment", "warn", ".venv is missing or out of date; the next task makes it"
    else:
        yield "environment", "ok", f"{tree.python.parent.parent}, groups: {', '.join(sorted(tree.groups)) or 'none'}"
    found = ", ".join(map(str, newer_pythons()))
    yield "newer Python", "ok", found or "none on PATH or among pyenv's versions; `./dev newer` has nothing to do"


def check_packages(tree: Tree) -> Iterator[Row]:
    """What the library needs, who owns its import name, and who else speaks RocketMQ."""
    pythons = {"this Python": sys.executable}
    if tree.groups is not None:
        pythons["environment"] = str(tree.python)
    for where, python in pythons.items():
        answer = json_of(python, OWNERS, cwd=Path("/"))
        if answer is None:
            continue
        origin, pairs = answer
        found = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}
        if where == "environment":
            yield from check_requirements(tree.needed, found)
        yield check_import_name(tree.root, where, origin)
        others = sorted(name for name in found if "rocketmq" in name)
        if others:
            yield "RocketMQ packages", "warn", f"{where} also holds {', '.join(others)}"


def check_requirements(requirements: Iterable[str], found: dict[str, str]) -> Iterator[Row]:
    """The packages the library itself needs."""
    needed = [re.split(r"[^A-Za-z0-9_-]", text)[0] for text in requirements]
    missing = [name for name in needed if name.lower() not in found]
    have = ", ".join(f"{name} {found[name.lower()]}" for name in needed if name not in missing)
    if missing:
        yield "packages", "FAIL", f"missing: {', '.join(missing)}"
    else:
        yield "packages", "ok", have


def check_import_name(root: Path, where: str, origin: str | None) -> Row:
    """`import rocketpy` must mean this project: another one on the package index has the same name."""
    if origin is None:
        return "import rocketpy", "ok", f"{where}: free"
    if Path(origin).is_relative_to(root) or (Path(origin).parent / "wire").is_dir():
        return "import rocketpy", "ok", f"{where}: {origin}"
    state = "FAIL" if where == "environment" else "warn"
    advice = "use a fresh environment, or: pip uninstall rocketpy"
    return "import rocketpy", state, f"{where}: another project owns the name ({origin}); {advice}"


def check_java() -> Iterator[Row]:
    """What the tests beside Apache's servers and those with Spark need."""
    for name, command, what_for in (
        ("Java", ["java", "-version"], "`./dev interop`, `./dev spark` and `./dev spark-demo` need it"),
        ("JDK", ["javac", "-version"], "only `./dev interop` needs it"),
        ("Maven", ["mvn", "-v"], "only `./dev interop` needs it"),
    ):
        version = version_of(*command)
        yield name, "ok" if version else "warn", version or f"not found; {what_for}"


def check_spark(tree: Tree) -> Iterator[Row]:
    """The two lines of PySpark that the sinks are tested with."""
    newest = json_of(tree.python, PYSPARK, cwd=Path("/")) if tree.groups is not None else None
    later = "not installed; `./dev spark` does that (400 MB)"
    yield "PySpark 4", "ok", f"{newest} in the environment" if newest else later
    older = json_of(tree.python, PYSPARK, cwd=tree.second_spark) if tree.second_spark.is_dir() else None
    yield "PySpark 3.5", "ok", f"{older} in {tree.second_spark}" if older else later


def check_network() -> Iterator[Row]:
    """Loopback, and the ports that RocketMQ's servers use by default."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=2).close()
        yield "loopback", "ok", "127.0.0.1 accepts connections"
    except OSError as error:
        yield "loopback", "FAIL", f"cannot connect to a port of 127.0.0.1: {error}"
    for port, what in ((9876, "name server"), (10911, "broker")):
        try:
            socket.create_server(("127.0.0.1", port)).close()
            yield f"port {port}", "ok", f"free ({what})"
        except OSError as error:
            yield f"port {port}", "warn", f"not free for a {what}: {error.strerror}"
    if os.environ.get("NAMESRV_ADDR"):
        yield "NAMESRV_ADDR", "ok", os.environ["NAMESRV_ADDR"]


def check_disk(root: Path) -> Iterator[Row]:
    """Room for an environment, a store and Apache's artifacts."""
    free = shutil.disk_usage(root).free / 2**30
    yield "disk", "ok" if free >= 2 else "warn", f"{free:.1f} GiB free at {root} (2 are comfortable)"
