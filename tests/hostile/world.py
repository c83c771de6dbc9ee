"""A name server and a broker as processes, and an innocent pair at each."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.broker_sim.cli.servers import ADDRESS, MODULES
from tests.hostile import innocent, meter
from tests.hostile.board import Board
from tests.hostile.innocent import route_request, send_request
from tests.hostile.measured import Measured
from tests.hostile.peer import Closed, ask_once, wait_until
from tests.hostile.zygote import Zygote

PROGRAMS = {"broker": "rocketpy-broker", "namesrv": "rocketpy-namesrv"}
ROLES = ("broker", "namesrv")
MIB = 1024 * 1024
_ANSWERS_WITHIN = 10.0
SHOWS_METRICS = "metricsExporterType=PROM\nmetricsPromExporterPort=0\n"
"""The settings of a server that has a port with metrics, too."""
_METRICS = re.compile(r"metrics http://([^/]+)/metrics")
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


class Served(Measured):
    """One server process, and the innocent pair beside it.

    Attributes:
        metrics: The address of its port with metrics; empty without one.
    """

    def __init__(self, role: str, home: Path, zygotes: Mapping[str, Zygote], settings: str = "") -> None:
        super().__init__(role, home)
        self._zygotes = zygotes
        self.metrics = ""
        self._store = home
        self._settings = settings

    # --- its life ---

    def start(self, *, with_pair: bool = True, name_server: str = "", same_store: bool = False) -> None:
        """Start it, on an empty store unless it shall have its own again, and the pair beside it."""
        number = self._begin()
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
        command = [str(board), PROGRAMS[self.role], "-c", str(file), "--log", str(self.home / "log")]
        self.process = self._fork(self._zygotes[self.role], command)
        line = self.process.stdout.readline().decode()
        assert "boot success" in line, line + self.said()
        self.address = ADDRESS.findall(line)[0]
        self.metrics = "".join(_METRICS.findall(line))
        self.pair = Board(self.home / f"pair{number}", innocent.WORDS)
        if with_pair:
            self.start_pair()

    def start_pair(self) -> None:
        """Begin to send and pull ten times a second; returns when both have been answered."""
        board = self.home / f"pair{self.starts}"
        self._fork(self._zygotes["innocent"], [str(board), self.role, self.address])
        assert wait_until(lambda: self.pair["answered 0"] and self.pair["answered 1"], 20), self.pair.line

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

    def answers(self) -> bool:
        """Whether somebody new is served."""
        frame = send_request() if self.role == "broker" else route_request()
        try:
            return self.lives and ask_once(self.address, frame, timeout=_ANSWERS_WITHIN).code >= 0
        except (Closed, OSError):
            return False


class World:
    """Both servers.

    Attributes:
        home: The folder of their directories.
        beside: Other processes that run beside them and end with them, by role.
        is_fresh: Whether they have not been attacked since they were started.
    """

    def __init__(self, home: Path, settings: dict[str, str] | None = None) -> None:
        wanted = settings or {}
        self.home = home
        launch = "tests.hostile.launch"
        self._zygotes = {role: Zygote(launch, MODULES[program]) for role, program in PROGRAMS.items()}
        self._zygotes["innocent"] = Zygote("tests.hostile.innocent")
        self.served = {role: Served(role, home / role, self._zygotes, wanted.get(role, "")) for role in ROLES}
        self.beside: dict[str, Measured] = {}
        self.is_fresh = True

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
        self.is_fresh = True

    def restart(self) -> None:
        """Begin again with empty stores: what one attack has left behind is not held against the next."""
        self.kill()
        self.start()

    def kill(self) -> None:
        for served in (*self.beside.values(), *self.served.values()):
            served.kill()

    def close(self) -> None:
        """Kill them, and leave nothing that could start them again."""
        self.kill()
        for zygote in self._zygotes.values():
            zygote.close()


@contextlib.contextmanager
def running(home: Path, settings: dict[str, str] | None = None) -> Iterator[World]:
    """Both servers for the time of a block."""
    world = World(home, settings)
    try:
        world.start()
        yield world
    finally:
        world.close()
