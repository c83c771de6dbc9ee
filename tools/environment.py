"""An environment of the tree: made once, installed into when pyproject.toml changes, and put in front of commands.

A stamp inside it names what it holds and what that depends on; a lock beside it keeps a second `./dev` from changing
it at the same time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tools.asking import json_of
from tools.ending import PATIENCE, end, raised
from tools.requirements import EXTRAS, read_pyproject, split
from tools.trouble import Trouble, say

LEFT_OUT = frozenset({"PYTHONHOME", "PYTHONDONTWRITEBYTECODE"})
WHOSE = "import json, sys; print(json.dumps(['.'.join(map(str, sys.version_info[:2])), sys.prefix]))"


@dataclasses.dataclass(frozen=True)
class Environment:
    """A folder that holds the project, editable, and the dependency groups asked for so far.

    Attributes:
        root: The tree whose project it holds.
        place: Where it is.
        maker: The interpreter that it is made with.
        version: The minor version of that one, such as "3.13".
    """

    root: Path
    place: Path
    maker: str = sys.executable
    version: str = f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def bin(self) -> Path:
        """Where its commands are."""
        return self.place / "bin"

    @property
    def python(self) -> Path:
        """Its own interpreter."""
        return self.bin / "python"

    @property
    def stamp(self) -> Path:
        """The file that is written last, once everything is installed."""
        return self.place / "installed.json"

    def fingerprint(self) -> str:
        """Identify what its contents depend on: the metadata, the place and the interpreter."""
        basis = [(self.root / "pyproject.toml").read_bytes(), os.fsencode(self.root), self.version.encode()]
        return hashlib.sha256(b"\0".join(basis)).hexdigest()

    def groups(self) -> set[str] | None:
        """Return the groups that stand in it, or None when it is missing, out of date or half made."""
        try:
            stamp = json.loads(self.stamp.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        whole = stamp.get("fingerprint") == self.fingerprint() and self.python.exists()
        return set(stamp["groups"]) if whole else None

    @contextlib.contextmanager
    def only_one(self) -> Iterator[None]:
        """Keep a second `./dev` from changing an environment of this tree at the same time."""
        cache = self.root / ".cache"
        cache.mkdir(exist_ok=True)
        with (cache / "dev.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def ensure(self, groups: Iterable[str] = ()) -> None:
        """Make it hold the project and `groups`; does nothing when it already does."""
        wanted = set(groups)
        present = self.groups()
        if present is not None and wanted <= present:
            return
        with self.only_one():
            present = self.groups()
            if present is None:
                self.make()
            if present is None or not wanted <= present:
                self.install(sorted(wanted - (present or set())), project=present is None)
                whole = {"fingerprint": self.fingerprint(), "groups": sorted(wanted | (present or set()))}
                self.stamp.write_text(json.dumps(whole), "utf-8")

    def make(self) -> None:
        """Create it, and create it again where another interpreter or another place made the one that is there."""
        same = json_of(self.python, WHOSE)
        if same == [self.version, str(self.place)]:
            return
        say(f"[setup] making {self.place} with Python {self.version}")
        try:
            command = [self.maker, "-m", "venv", "--clear", str(self.place)]
            made = subprocess.run(command, capture_output=True, text=True)
            failed, output = made.returncode != 0, (made.stdout + made.stderr).strip()
        except OSError as error:
            failed, output = True, str(error)
        if failed or not self.python.exists():
            raise Trouble(
                f"could not make the environment {self.place} with {self.maker}:\n"
                f"{output or f'it made no {self.python}'}\n"
                "On Debian and Ubuntu the module venv is a package of its own: apt-get install python3-venv"
            )

    def install(self, groups: Sequence[str], *, project: bool) -> None:
        """Install the project (when `project`) and the requirements of `groups` with pip."""
        full, bare = split(groups, read_pyproject(self.root).get("dependency-groups", {}))
        if project:
            full = ["-e", f"{self.root}[{EXTRAS}]", *full]
        names = [name for name in ("the project" if project else "", *groups) if name]
        where = self.place.relative_to(self.root)
        say(f"[setup] installing {', '.join(names)} into {where} (this takes a minute, once)")
        if full:
            self.pip("install", *full)
        if bare:
            self.pip("install", "--no-deps", *bare)

    def pip(self, *arguments: str) -> None:
        """Run its pip, quietly; pip's own words are shown where it fails."""
        options = ["--quiet", "--disable-pip-version-check", "--no-input"]
        command = [str(self.python), "-m", "pip", arguments[0], *options, *arguments[1:]]
        if subprocess.run(command, cwd=self.root).returncode:
            raise Trouble(
                "pip could not install what this task needs; see its output above.\n"
                f"Tried: {shlex.join(command)}\n"
                "If it could not reach a package index, see `pip config list`; then run ./dev again."
            )

    def variables(self) -> dict[str, str]:
        """Return the variables of this process with its commands in front, as an activated shell has them.

        PYTHONDONTWRITEBYTECODE is left out: the tests start a thousand processes, and each would compile the library.
        """
        env = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        env["VIRTUAL_ENV"] = str(self.place)
        env["PATH"] = os.pathsep.join([str(self.bin), env.get("PATH", os.defpath)])
        return env

    def become(self, command: Sequence[str]) -> NoReturn:
        """Replace this process, so that pid, signals and exit status are the command's own."""
        sys.stdout.flush()
        env = self.variables()
        if shutil.which(command[0], path=env["PATH"]) is None:
            where = self.bin.relative_to(self.root)
            raise Trouble(f"no command {command[0]!r} in {where} or on PATH.")
        os.environ.clear()
        os.environ.update(env)  # execvp looks the command up in the PATH of this process
        os.execvp(command[0], list(command))

    def run(self, *command: str, more: Mapping[str, str] | None = None) -> int:
        """Run a command of it at the top of the tree; return its exit status.

        The command ends when this is left early. Ctrl-C reaches it, too, and it has time to clean up.
        """
        with raised(signal.SIGTERM):
            process = subprocess.Popen(command, cwd=self.root, env=self.variables() | dict(more or {}))
            try:
                return process.wait()
            except KeyboardInterrupt:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE)
                raise
            finally:
                end(process)
