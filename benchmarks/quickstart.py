"""The quickstart as users run it, over a file of its own size: how long it takes, what CPU and what memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from time import perf_counter
from typing import IO

from benchmarks.processes import ROOT, environment
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError

RECORDS = 30_000
WITHIN = 120.0
_CARRIERS = ("AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
_OPTIONS = ("--key", "number", "--tag", "carrier")


def quickstart(records: int, tree: Path | None = None) -> Outcome:
    """Run it once: milliseconds from its start to its end, with its servers in the same process.

    Raises:
        BenchmarkError: it fails, or does not end.
    """
    with tempfile.TemporaryDirectory(prefix="rocketpy-bench-") as directory:
        file = Path(directory) / "records.ndjson"
        file.write_text("".join(map(_line, range(records))), "utf-8")
        with (Path(directory) / "output").open("w+", encoding="utf-8") as output:
            return _run([sys.executable, "-m", "examples.quickstart", str(file), *_OPTIONS], records, tree, output)


def _run(command: list[str], records: int, tree: Path | None, output: IO[str]) -> Outcome:
    began = perf_counter()
    program = subprocess.Popen(
        command,
        cwd=tree or ROOT,
        env=environment(tree),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    timer = threading.Timer(WITHIN, program.kill)
    timer.start()
    try:
        _, status, usage = os.wait4(program.pid, 0)  # which says what this one has used, and no other
        program.returncode = os.waitstatus_to_exitcode(status)
    finally:
        timer.cancel()
        program.kill()  # does nothing to one that has ended
        program.wait()
    seconds = perf_counter() - began
    if program.returncode:
        output.seek(0)
        raise BenchmarkError(f"the quickstart ended with status {program.returncode}\n{output.read()[-2000:]}")
    cpu = (usage.ru_utime + usage.ru_stime) * 100_000 / records
    return Outcome(seconds * 1e3, records, cpu, notes={"peak_MB": usage.ru_maxrss / 1024})


def _line(number: int) -> str:
    record = {
        "number": str(number),
        "carrier": _CARRIERS[number % len(_CARRIERS)],
        "origin": "JFK",
        "dest": "SFO",
        "dep_delay": number % 90,
        "distance": 2586,
        "time_hour": "2013-01-01T05:00:00Z",
    }
    return json.dumps(record) + "\n"
