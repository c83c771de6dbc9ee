"""Processes in which cells of a matrix run one after the other, in the main thread, each within a hard bound.

A cell that hangs has the stacks of all threads dumped and its process ended, by a watchdog that needs neither the
interpreter's lock nor any thread. A cell that fails ends its process too: what it broke may not hurt the next one.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress

import pytest

__all__ = ["BOUND", "Worker"]

BOUND = 20.0
"""Seconds that a cell may take, its closing included."""
_SHOWN = 12_000


class Worker:
    """Runs cells: `worker.run("tests.matrix.places:cell", "blocking", "selector", "Producer.send")`."""

    def __init__(self, cluster):
        self.cluster = cluster
        self._process = None
        self._said = None

    def run(self, function, *arguments, bound=BOUND):
        """Run a cell; what it returns. The test fails with what it raised, or with all stacks when it hung."""
        if self._process is None:
            self._start()
        self._process.stdin.write(json.dumps([function, arguments, bound]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"no end within {bound:g} s, or the process died"}
        if "error" in answer:
            said = self._stop()
            pytest.fail(f"{answer['error']}\n--- standard error of the process\n{said}", pytrace=False)
        return answer["value"]

    def _start(self):
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by _stop
        command = [sys.executable, "-m", "tests.matrix.worker", str(self.cluster.port)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
        )

    def _stop(self):
        process, self._process = self._process, None
        process.kill()
        process.wait()
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        with self._said:
            self._said.seek(0)
            said = self._said.read()
        return said if len(said) < _SHOWN else f"{said[:_SHOWN]}\n(and {len(said) - _SHOWN} characters more)"

    def close(self):
        if self._process is not None:
            self._stop()


# --- in the process --------------------------------------------------------------------------------------


def _run(line):
    name, arguments, bound = json.loads(line)
    module, _, function = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), function)
        faulthandler.dump_traceback_later(bound, exit=True)
        return {"value": function(*arguments)}
    except BaseException as error:  # noqa: BLE001 - a SystemExit too is the end of a cell, not of the process
        said = str(error) if isinstance(error, AssertionError) else ""
        return {"error": said or "".join(traceback.format_exception(error))}
    finally:
        faulthandler.cancel_dump_traceback_later()


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what users' code prints is not an answer
    for line in sys.stdin:
        answers.write(json.dumps(_run(line)) + "\n")
        answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
