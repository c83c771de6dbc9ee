"""A name server and a broker as processes, an innocent pair at each, and what can be read of them from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.broker_sim.cli.servers import ADDRESS, ROOT
from tests.hostile import innocent, meter
from tests.hostile.board import Board
from tests.hostile.innocent import route_request, send_request
from tests.hostile.peer import Closed, ask_once, wait_until

PROGRAMS = {"broker": "rocketpy-broker", "namesrv": "rocketpy-namesrv"}
ROLES = ("broker", "namesrv")
MIB = 1024 * 1024
_ANSWERS_WITHIN = 10.0
_SETTINGS = "bindAddress=127.0.0.1\nlistenPort=0\n"
_BROKER_SETTINGS = """\
brokerIP1=127.0.0.1
brokerClusterName=DefaultCluster
brokerName=broker-a
storePathRootDir={store}
mappedFileSizeCommitLog=67108864
enablePropertyFilter=true
recallMessageEnable=true
"""


class Memory(NamedTuple):
    """Bytes of a process that are its own: pages of files that it maps belong to the system."""

    now: int
    peak: int
    """The most since the last reset."""


class Served:
    """One server process, what it says of its loop, and the innocent pair beside it.

    Attributes:
        role: "broker" or "namesrv".
        home: Its directory; the log of the server is `log` there.
        address: Where it listens.
        starts: How often it has been started.
        resting: The longest turn between attacks, in seconds: what attacks have left for later.
    """

    def __init__(self, role: str, home: Path, settings: str = "") -> None:
        self.role, self.home = role, home
        self.address = ""
        self.starts = 0
        self.resting = 0.0
        self._is_resting = False
        self._store = home
        self._settings = settings
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"} | {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "PYTHONPATH": str(ROOT),
        }
        home.mkdir()

    # --- its life ---

    def start(self, *, with_pair: bool = True, name_server: str = "", same_store: bool = False) -> None:
        """Start it, on an empty store unless it shall have its own again, and the pair beside it."""
        self.starts += 1
        self._is_resting = False
        number = self.starts
        if not same_store:
            self._store = self.home / f"store{number}"
        store = self._store
        text = _SETTINGS + self._settings
        if self.role == "broker":
            text += _BROKER_SETTINGS.format(store=store) + (f"namesrvAddr={name_server}\n" if name_server else "")
        else:
            text += f"kvConfigPath={store}.json\n"
        file = self.home / f"settings{number}"
        file.write_text(text, "utf-8")
        board = self.home / f"meter{number}"
        self.meter = Board(board, meter.WORDS)
        command = ["tests.hostile.launch", str(board), PROGRAMS[self.role], "-c", str(file)]
        self.process = self._run([*command, "--log", str(self.home / "log")], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert "boot success" in line, line + self.said()
        self.address = ADDRESS.findall(line)[0]
        self.pair = Board(self.home / f"pair{number}", innocent.WORDS)
        if with_pair:
            self.start_pair()

    def start_pair(self) -> None:
        """Begin to send and pull ten times a second; returns when both have been answered."""
        board = self.home / f"pair{self.starts}"
        self._run(["tests.hostile.innocent", str(board), self.role, self.address])
        assert wait_until(lambda: self.pair["answered 0"] and self.pair["answered 1"], 20), self.pair.line

    def _run(self, command: list[str], **more: int) -> subprocess.Popen[bytes]:
        with (self.home / "errors").open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=self.home, env=self._environment, stderr=errors, **more
            )
        self._processes.append(process)
        return process

    def stop(self) -> float:
        """Ask the server to end, and return the seconds that took; what does not end is killed."""
        began = time.monotonic()
        if self._processes:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(40)
        seconds = time.monotonic() - began
        self.kill()
        return seconds

    def kill(self) -> None:
        """End everything of it at once."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._processes.clear()

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        """The end of what it wrote to its log and to standard error."""
        files = [self.home / "log", self.home / "errors"]
        return "\n".join(file.read_text("utf-8", "replace")[-3000:] for file in files if file.exists())

    # --- what it is asked from outside ---

    def memory(self) -> Memory:
        """What it holds, and held at most. The peak of own pages is that of all without the pages of files."""
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
        """An attack is over, and its turns have been read: what comes now is what it has left for later."""
        self.meter["longest"] = 0
        self._is_resting = True

    def rested(self) -> float:
        """The longest turn between attacks since this was asked last, in seconds."""
        self._note_rest()
        longest, self.resting = self.resting, 0.0
        return longest

    def _note_rest(self) -> None:
        if self._is_resting:
            self.resting = max(self.resting, self.meter["longest"] / 1e9)

    def waited(self) -> float:
        """Seconds of the longest wait of the pair, one that has not ended included."""
        worst = max(self.pair["worst 0"], self.pair["worst 1"])
        asked = [at for at in (self.pair["asked 0"], self.pair["asked 1"]) if at]
        return max(worst, *(time.monotonic_ns() - at for at in asked), 0) / 1e9

    def failures(self) -> int:
        """Answers to the pair that were refusals, and connections of theirs that were closed."""
        return self.pair["failed 0"] + self.pair["failed 1"]

    def answers(self) -> bool:
        """Whether somebody new is served."""
        frame = send_request() if self.role == "broker" else route_request()
        try:
            return self.lives and ask_once(self.address, frame, timeout=_ANSWERS_WITHIN).code >= 0
        except (Closed, OSError):
            return False


class World:
    """Both servers."""

    def __init__(self, home: Path, settings: dict[str, str] | None = None) -> None:
        wanted = settings or {}
        self.served = {role: Served(role, home / role, wanted.get(role, "")) for role in ROLES}

    @property
    def broker(self) -> Served:
        return self.served["broker"]

    @property
    def namesrv(self) -> Served:
        return self.served["namesrv"]

    def start(self) -> None:
        """The name server, the broker, the pair of each: the route is there when the broker's pair has sent."""
        self.namesrv.start(with_pair=False)
        self.broker.start(name_server=self.namesrv.address)
        frame_is_answered = lambda: ask_once(self.namesrv.address, route_request()).code == 0  # noqa: E731
        assert wait_until(frame_is_answered, 20)
        self.namesrv.start_pair()

    def restart(self) -> None:
        """Begin again with empty stores: what one attack has left behind is not held against the next."""
        self.kill()
        self.start()

    def kill(self) -> None:
        for served in self.served.values():
            served.kill()


@contextlib.contextmanager
def running(home: Path, settings: dict[str, str] | None = None) -> Iterator[World]:
    """Both servers for the time of a block."""
    world = World(home, settings)
    try:
        world.start()
        yield world
    finally:
        world.kill()
