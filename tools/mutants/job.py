"""Tries mutants in one copy of the tree, one after the other."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.ending import end_session
from tools.mutants.covering import PYTEST, Candidates, Covering
from tools.mutants.operators import Mutant
from tools.mutants.sample import Sources
from tools.mutants.serving import PIPES
from tools.mutants.trees import copy_tree, environment_of

FIRST = 200
"""So many tests run before the others, the fastest of those that the mutant concerns most."""
LEAST = 20.0
TIMES = 5
"""A test hangs when it takes longer than `LEAST` seconds and so many times what it took when nothing was changed."""
COLLECTING = 300.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    name: str
    state: str
    """killed, timed out, survived or not covered"""
    killer: str | None = None
    tests: int = 0
    """The tests that were run, all of them where it survived."""
    left_out: int = 0
    """Tests that run the line too, but were beyond the time for one mutant."""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it for the report."""
        return asdict(self)


class Ended(Exception):
    """The run is being left; there is no verdict any more."""


class Server:
    """A process of pytest that has collected tests, and runs some of them when asked."""

    def __init__(self, tree: Path, scratch: Path, marks: str, files: Sequence[str] = ()) -> None:
        asked, self._asking = os.pipe()
        answering, answered = os.pipe()
        environment = environment_of(tree, scratch, **{PIPES: f"{asked},{answered}"})
        command = [sys.executable, *PYTEST, "-p", "tools.mutants.serving", "--basetemp", str(scratch / "p")]
        self._process = subprocess.Popen(
            [*command, "-m", marks, *files],
            cwd=tree,
            env=environment,
            pass_fds=(asked, answered),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(asked)
        os.close(answered)
        self._answers = os.fdopen(answering)
        self._ended = False

    def ready(self) -> bool:
        """Wait for it; False where the tests cannot be collected."""
        poll = select.poll()  # unlike `select`, it takes any file descriptor
        poll.register(self._answers, select.POLLIN)
        line = self._answers.readline() if poll.poll(COLLECTING * 1000) else ""
        if self._ended:
            raise Ended
        return bool(line) and json.loads(line)["state"] == "ready"

    def run(self, tests: Sequence[str], limits: Sequence[float], patch: Sequence[str] | None) -> dict[str, Any]:
        """Run tests until one fails."""
        request = json.dumps({"tests": tests, "limits": limits, "patch": patch}) + "\n"
        view = memoryview(request.encode())
        try:
            while view:
                view = view[os.write(self._asking, view) :]
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if self._ended:
            raise Ended
        answer: dict[str, Any] = json.loads(line) if line else {"state": "failed", "test": tests[0]}
        return answer

    def end(self) -> None:
        """End it at once, whatever it is running; the thread that waits for its answer is told by `Ended`."""
        self._ended = True
        self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End it, with all that it started."""
        os.close(self._asking)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        end_session(self._process)
        self._answers.close()


class Job:
    """A copy of the tree with a server of its own."""

    def __init__(self, sources: Sources, covering: Covering, marks: str, budget: float) -> None:
        self._sources, self._covering, self._marks, self._budget = sources, covering, marks, budget
        self._unreliable: set[str] = set()
        self._trusted: set[str] = set()
        self._starting = threading.Lock()
        self._servers: list[Server] = []
        self._ended = False

    @contextmanager
    def open(self, root: Path, files: Sequence[str]) -> Iterator[None]:
        """Make the copy and start the server; both go in the end."""
        with ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True))
            )
            self._tree, self._scratch = folder / "tree", folder / "t"
            copy_tree(root, files, self._tree)
            self._server = stack.enter_context(self._started())
            if not self._server.ready():
                raise SystemExit("mutants: pytest cannot collect the tests in a copy of this tree")
            yield

    def end(self) -> None:
        """End its servers at once, from another thread; it starts no others."""
        with self._starting:
            self._ended = True
            for server in self._servers:
                server.end()

    @contextmanager
    def _started(self, files: Sequence[str] = ()) -> Iterator[Server]:
        with self._starting:
            if self._ended:
                raise Ended
            server = Server(self._tree, self._scratch, self._marks, files)
            self._servers.append(server)
        try:
            yield server
        finally:
            with self._starting:
                self._servers.remove(server)
            server.close()

    def try_(self, mutant: Mutant) -> Verdict:
        """Find out whether a test notices the mutant."""
        began = time.monotonic()
        candidates = self._covering.candidates(mutant)
        batches, left_out = self._batches(candidates)
        if not batches:
            return Verdict(mutant.name, "not covered")
        with self._written(mutant):
            state, killer = self._state(mutant, candidates, batches)
        seconds = round(time.monotonic() - began, 1)
        return Verdict(mutant.name, state, killer, sum(map(len, batches)), left_out, seconds)

    def _batches(self, candidates: Candidates) -> tuple[list[list[str]], int]:
        """Return the fastest tests and then the others, as far as the time for one mutant reaches."""
        within: list[str] = []
        spent = 0.0
        for name in candidates.tests:
            spent += self._covering.seconds[name]
            if spent > self._budget and within:
                break
            within.append(name)
        batches = [within[:FIRST], within[FIRST:]]
        return [self._covering.in_order(batch) for batch in batches if batch], len(candidates.tests) - len(within)

    @contextmanager
    def _written(self, mutant: Mutant, *, changed: bool = True) -> Iterator[None]:
        """Have the file changed in the copy, or as it was, for a while; what comes back is as old as it was."""
        path = self._tree / mutant.path
        before, times = path.read_bytes(), path.stat()
        path.write_bytes(self._sources.mutated(mutant).encode() if changed else self._sources.files[mutant.path].data)
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _state(self, mutant: Mutant, candidates: Candidates, batches: list[list[str]]) -> tuple[str, str | None]:
        if not candidates.at_import:
            path = str(self._tree / mutant.path)
            source = self._sources.files[mutant.path]
            patch = (path, source.data.decode(), self._sources.mutated(mutant))
            found = self._among(self._server, mutant, batches, patch)
            if found is not None:
                return found
        return self._from_start(mutant, batches)

    def _from_start(self, mutant: Mutant, batches: list[list[str]]) -> tuple[str, str | None]:
        """Try it in processes that import the changed file."""
        for batch in batches:
            files = sorted({name.partition("::")[0] for name in batch})
            with self._started(files) as server:
                if not server.ready():
                    return "killed", "import"
                state, killer = self._among(server, mutant, [batch], None) or ("survived", None)
                if state != "survived":
                    return state, killer
        return "survived", None

    def _among(
        self, server: Server, mutant: Mutant, batches: list[list[str]], patch: tuple[str, str, str] | None
    ) -> tuple[str, str | None] | None:
        """Return what the tests say of the mutant; None where it cannot be put into this server."""
        for batch in batches:
            rest = [name for name in batch if name not in self._unreliable]
            while rest:
                answer = server.run(rest, [self._limit(name) for name in rest], patch)
                if answer["state"] == "cannot patch":
                    return None
                if answer["state"] == "passed":
                    break
                if self._passes_unchanged(mutant, answer["test"]):
                    return ("killed" if answer["state"] == "failed" else "timed out"), answer["test"]
                rest = rest[rest.index(answer["test"]) + 1 :]
        return "survived", None

    def _limit(self, name: str) -> float:
        return max(LEAST, TIMES * self._covering.seconds[name])

    def _passes_unchanged(self, mutant: Mutant, name: str) -> bool:
        """True for a test that can be trusted: it passes by itself in a fork of the server when nothing is changed."""
        if name not in self._trusted:
            with self._written(mutant, changed=False):
                passes = self._server.run([name], [self._limit(name)], None)["state"] == "passed"
            (self._trusted if passes else self._unreliable).add(name)
        return name in self._trusted
