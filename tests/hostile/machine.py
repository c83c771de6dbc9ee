"""A broker process whose machine runs out of something for some seconds: descriptors, or room for files.

Each of these is a whole program for a process of its own, which fails with an assertion. What was acknowledged is
there after the shortage, and after the broker was killed and started again; the rest was refused with a text; and the
broker serves again without a restart.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.message_codec import decode_messages
from tests.broker_sim.cli.servers import ADDRESS, ROOT
from tests.hostile.frames import request
from tests.hostile.peer import Answer, Closed, Peer, wait_until

__all__ = ["descriptors", "file_size", "full_disk"]

SECONDS = 3.0
"""How long each shortage lasts."""
SOON = 30.0
"""Seconds in which the broker must serve again."""
FEW = 256
"""Descriptors that a broker gets where peers shall take them all."""
SETTINGS = """\
bindAddress=127.0.0.1
listenPort=0
brokerIP1=127.0.0.1
brokerName=broker-a
storePathRootDir={store}
mappedFileSizeCommitLog=8388608
cleanResourceInterval=1000
flushDiskType={mode}
"""
REFUSALS = {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}


class Machine:
    """A broker on a folder, and what it was sent.

    Attributes:
        kept: Bodies that were acknowledged, by topic.
        refused: What was said of others.
    """

    def __init__(self, folder: Path, mode: str, prepare: Callable[[], None] | None = None) -> None:
        self.folder = folder
        self.kept: dict[str, list[bytes]] = {}
        self.maybe: set[bytes] = set()
        self.refused: list[str] = []
        self._number = 0
        self._prepare = prepare
        file = folder.parent / f"{folder.name}.conf"
        file.write_text(SETTINGS.format(store=folder / "store", mode=mode), "utf-8")
        self._command = [sys.executable, "-m", "rocketpy_broker_sim.cli.broker", "-c", str(file)]
        self._command += ["--log", str(folder.parent / f"{folder.name}.log")]

    @contextmanager
    def running(self) -> Iterator[int]:
        """The broker, for the time of a block, which ends with its death; its process id."""
        environment = os.environ | {"HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder.parent)}
        environment["PYTHONPATH"] = str(ROOT)
        process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, env=environment, cwd=self.folder.parent, preexec_fn=self._prepare
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            assert "boot success" in line, line
            self.address = ADDRESS.findall(line)[0]
            with Peer(self.address) as self.peer:
                yield process.pid
                assert process.poll() is None, "the broker has ended"
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def send(self, topic: str = "T") -> bool:
        """Send a message; whether it was acknowledged."""
        self._number += 1
        body = b"%d:" % self._number + b"." * 2000
        names = {"a": "g", "b": topic, "c": "TBW102", "i": f"KEYS\x01k{self._number}\x02"}
        numbers = {"d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "j": 0}
        fields = names | {name: str(value) for name, value in numbers.items()}
        answer = self.peer.ask(request(RequestCode.SEND_MESSAGE_V2, fields, body))
        if answer.code == ResponseCode.SUCCESS:
            self.kept.setdefault(topic, []).append(body)
            return True
        assert answer.code in REFUSALS, answer
        assert answer.remark, answer
        self.maybe.add(body)
        self.refused.append(answer.remark)
        return False

    def work(self) -> None:
        """Send for as long as the shortage lasts, to an old topic and to new ones, and read what there is."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.send()
            self.send(f"New{self._number}")
            answer = self._pull("T", 0)
            assert answer.code == ResponseCode.SUCCESS or answer.remark, answer
            time.sleep(0.02)

    def serves_again(self) -> None:
        """It takes messages of old and new topics soon, and has what it acknowledged."""
        assert wait_until(self.send, SOON), self.refused[-1]
        assert wait_until(lambda: self.send("Later"), SOON), self.refused[-1]
        for _ in range(10):
            assert self.send()
        with Peer(self.address):
            self.check()

    def check(self) -> None:
        """What was acknowledged is there, once and in order."""
        for topic, kept in self.kept.items():
            assert wait_until(lambda t=topic, k=kept: self._has(t, k), SOON), f"{topic} lacks acknowledged messages"

    def _has(self, topic: str, kept: list[bytes]) -> bool:
        found: list[bytes] = []
        while (answer := self._pull(topic, len(found))).code == ResponseCode.SUCCESS:
            found += [message.body for message in decode_messages(answer.body)]
        assert len(found) == len(set(found)), f"{topic} has a message twice"
        return [body for body in found if body not in self.maybe] == kept

    def _pull(self, topic: str, offset: int) -> Answer:
        numbers = {"queueId": 0, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0}
        numbers |= {"suspendTimeoutMillis": 0, "subVersion": 0}
        names = {"consumerGroup": "g", "topic": topic, "subscription": "*"}
        fields = names | {name: str(value) for name, value in numbers.items()}
        return self.peer.ask(request(RequestCode.PULL_MESSAGE, fields))

    def killed_and_started(self) -> None:
        """Everything acknowledged outlives the process too."""
        with self.running():
            self.check()
            assert self.send()


def descriptors(folder: str, mode: str) -> None:
    """Peers take all descriptors of the broker for some seconds."""
    limits = (FEW, FEW)
    machine = Machine(Path(folder), mode, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
    with machine.running() as pid:
        for _ in range(20):
            assert machine.send()
        peers: list[Peer] = []
        for _ in range(2 * FEW):
            with suppress(OSError, Closed):
                peers.append(Peer(machine.address, timeout=5))
        assert wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) >= FEW - 8, SOON), "they were never all taken"
        machine.work()
        for peer in peers:
            peer.close()
        machine.serves_again()
    machine.killed_and_started()


def file_size(folder: str, mode: str) -> None:
    """No file may be written or grow for some seconds, as if the disk were full; this needs no rights."""
    machine = Machine(Path(folder), mode)
    with machine.running() as pid:
        for _ in range(20):
            assert machine.send()
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
        machine.work()
        assert machine.refused, "the limit was never met"
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        machine.serves_again()
    machine.killed_and_started()


def full_disk(folder: str, mode: str) -> None:
    """The file system that has the store is full for some seconds, to the last byte."""
    machine = Machine(Path(folder), mode)
    ballast = Path(folder) / "ballast"
    with machine.running():
        for _ in range(20):
            assert machine.send()
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(65536)):
                pass
        machine.work()
        assert machine.refused, "the disk was never full"
        ballast.unlink()
        machine.serves_again()
    machine.killed_and_started()
