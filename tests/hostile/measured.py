"""A process whose loop and memory are measured from outside, with an innocent pair of connections beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

from tests.broker_sim.cli.servers import ROOT
from tests.hostile.board import Board
from tests.hostile.zygote import Forked, Zygote


class Memory(NamedTuple):
    """Bytes that belong to the process itself: not the pages of files that it maps."""

    now: int
    peak: int
    """The most since the last reset."""


class Measured(ABC):
    """One process, the measurements of its loop, and the innocent pair beside it.

    Attributes:
        role: "broker", "namesrv" or "client".
        home: Its directory; the log is the file `log` in it.
        address: The address that attackers connect to.
        starts: How often it has been started.
        resting: The longest turn between attacks, in seconds: work that attacks have left for later.
        process: The process, once it has been started.
        meter: The measurements of its loop.
        pair: The measurements of the innocent pair.
    """

    process: subprocess.Popen[bytes] | Forked
    meter: Board
    pair: Board

    def __init__(self, role: str, home: Path) -> None:
        self.role, self.home = role, home
        self.address = ""
        self.starts = 0
        self.resting = 0.0
        self._is_resting = False
        self._processes: list[subprocess.Popen[bytes] | Forked] = []
        self._environment = {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"} | {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "PYTHONPATH": str(ROOT),
        }
        home.mkdir()

    # --- starting and stopping ---

    def _begin(self) -> int:
        """Announce a start; returns its number."""
        self.starts += 1
        self._is_resting = False
        return self.starts

    def _run(self, command: list[str], **more: int) -> subprocess.Popen[bytes]:
        with (self.home / "errors").open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=self.home, env=self._environment, stderr=errors, **more
            )
        self._processes.append(process)
        return process

    def _fork(self, zygote: Zygote, arguments: list[str]) -> Forked:
        """The same of a program that a zygote has imported already; what it says stands in its `stdout`."""
        with (self.home / "errors").open("ab") as errors:
            process = zygote.run(arguments, home=self.home, environment=self._environment, errors=errors.fileno())
        self._processes.append(process)
        return process

    def kill(self) -> None:
        """Kill the process and the innocent pair."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._processes.clear()

    @property
    def lives(self) -> bool:
        return bool(self._processes) and self.process.poll() is None

    def said(self) -> str:
        """The end of what it wrote to its log and to standard error."""
        files = [self.home / "log", self.home / "errors"]
        return "\n".join(file.read_text("utf-8", "replace")[-3000:] for file in files if file.exists())

    # --- measuring ---

    def memory(self) -> Memory:
        """The memory that it has now, and the peak. The peak is that of all pages minus the pages of files."""
        text = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        found = {line.split()[0]: int(line.split()[1]) * 1024 for line in text.splitlines() if line.endswith(" kB")}
        now = found["RssAnon:"]
        return Memory(now, max(now, found["VmHWM:"] - found["RssFile:"] - found["RssShmem:"]))

    def processor_seconds(self) -> float:
        """Processor time that the process has used, all threads together."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def begin(self) -> None:
        """Forget the longest turn, the most memory and the longest wait."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", "ascii")
        self._note_rest()
        self._is_resting = False
        self.meter["longest"] = 0
        self.meter["collecting"] = 0
        for number in (0, 1):
            self.pair[f"worst {number}"] = 0
            self.pair[f"failed {number}"] = 0
        self.pair.line = ""

    def rest(self) -> None:
        """Start measuring the time between attacks: work that the last one has left for later."""
        self.meter["longest"] = 0
        self._is_resting = True

    def rested(self) -> float:
        """The longest turn between attacks since the last call, in seconds."""
        self._note_rest()
        longest, self.resting = self.resting, 0.0
        return longest

    def _note_rest(self) -> None:
        if self._is_resting:
            self.resting = max(self.resting, self.meter["longest"] / 1e9)

    def waited(self) -> float:
        """Seconds of the pair's longest wait, including one that has not ended."""
        worst = max(self.pair["worst 0"], self.pair["worst 1"])
        asked = [at for at in (self.pair["asked 0"], self.pair["asked 1"]) if at]
        return max(worst, *(time.monotonic_ns() - at for at in asked), 0) / 1e9

    def failures(self) -> int:
        """How many requests of the pair were refused, and connections of the pair closed."""
        return self.pair["failed 0"] + self.pair["failed 1"]

    @abstractmethod
    def answers(self) -> bool:
        """Whether a new connection is served."""
