"""The Pythons of this machine that are newer than the oldest one supported: on PATH, and among pyenv's versions."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.asking import json_of
from tools.environment import Environment
from tools.trouble import Trouble, say

FIRST = (3, 12)
"""The first minor version that counts as newer."""

WHO = """
import json, sys, sysconfig
import ensurepip, ssl, venv
usual = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
print(json.dumps([sys.version_info[:3], usual and sys.version_info.releaselevel == "final"]))
"""
"""What a Python says of itself, if it can make environments and speak TLS. Packages are built for released CPythons
with a GIL; for others pip would have to compile them."""


@dataclasses.dataclass(frozen=True, order=True)
class Python:
    """An interpreter that works.

    Attributes:
        version: All three parts, as (3, 13, 0).
        path: Where it is.
    """

    version: tuple[int, int, int]
    path: str

    @property
    def minor(self) -> str:
        """The part of the version that packages are built for, such as "3.13"."""
        return ".".join(map(str, self.version[:2]))

    @property
    def names(self) -> tuple[str, str]:
        """How it may be asked for: "3.13", or "3.13.0"."""
        return self.minor, ".".join(map(str, self.version))

    def __str__(self) -> str:
        """Version and place, as people want to read them."""
        return f"{self.names[1]} ({self.path})"


def places(variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield what may be such an interpreter: by names on PATH, then pyenv's versions."""
    for folder in variables.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(folder):
            yield from sorted(path for path in _inside(folder) if path.name == "python3" or _newer(path.name))
    home = variables.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    yield from sorted(path / "bin" / "python3" for path in _inside(f"{home}/versions") if _newer(f"python{path.name}"))


def _inside(folder: str) -> list[Path]:
    try:
        return list(Path(folder).iterdir())
    except OSError:
        return []


def _newer(name: str) -> bool:
    """Whether a name such as python3.13 or python3.13.0 is that of a newer one; the others need not be asked."""
    found = re.fullmatch(r"python3\.(\d+)(\.\d+)?", name)
    return found is not None and (3, int(found[1])) >= FIRST


def ask(path: Path) -> Python | None:
    """Return the interpreter behind a path; None where it does not work, is not newer, or is not a usual one."""
    match json_of(path, WHO, options=["-I"]):
        case [[int(major), int(minor), int(micro)], True] if (major, minor) >= FIRST:
            return Python((major, minor, micro), str(path))
    return None  # also a shim of pyenv without its version, or Debian's Python without python3-venv


def newer_pythons(variables: Mapping[str, str] = os.environ) -> list[Python]:
    """Return one interpreter for each newer minor version, the newest first."""
    best: dict[str, Python] = {}
    asked = {path.resolve(): path for path in reversed(list(places(variables)))}
    for path in reversed(asked.values()):
        python = ask(path)
        if python is not None and (python.minor not in best or python.version > best[python.minor].version):
            best[python.minor] = python
    return sorted(best.values(), reverse=True)


def split(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the version that the arguments begin with, such as "3.12" or "3.12.1", or None, and the other arguments.

    Raises:
        Trouble: it is none of a newer Python.
    """
    if arguments and re.fullmatch(r"\d+(\.\d+)*", arguments[0]):
        if not _newer(f"python{arguments[0]}"):
            first = ".".join(map(str, FIRST))
            how = f"named as {first} or {first}.1"
            raise Trouble(f"`./dev newer` is for Python {first} or newer, {how}; it was given {arguments[0]}")
        return arguments[0], list(arguments[1:])
    return None, list(arguments)


def choose(root: Path, wanted: str | None = None) -> Environment | None:
    """Return the environment of the newest of them beside `.venv`, or say in one line why there is none.

    Args:
        root: The tree.
        wanted: A minor version such as "3.12", if it should not be the newest, or a whole one such as "3.12.1".

    Raises:
        Trouble: this machine has no such version.
    """
    found = newer_pythons()
    if wanted is not None:
        chosen = next((python for python in found if wanted in python.names), None)
        if chosen is None:
            have = ", ".join(map(str, found)) or "none"
            raise Trouble(f"there is no Python {wanted} that is newer than 3.11 and works here; there is: {have}")
    elif not found or found[0].version[:2] <= sys.version_info[:2]:
        say(f"note: no Python here is newer than {sys.version.split()[0]}, which the other tests run on.")
        return None
    else:
        chosen = found[0]
    say(f"== quick tests on Python {chosen}")
    return Environment(root, root / ".cache" / f"python-{chosen.minor}", chosen.path, chosen.minor)
