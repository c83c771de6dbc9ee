"""A child process of a kill loop: its lines as they come, and the signals it is given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from tests.kill.guard import Guard

ROOT = Path(__file__).resolve().parents[2]
READ_SIZE = 65_536
GONE_WITHIN = 10.0

OnLine = Callable[["Child", list[str]], None]


class Child:
    """One process.

    Attributes:
        name: Who it is; a later life of the same has another number in it.
        said: Set of the first words of its lines so far.
        ended: Set when it is gone and everything it wrote was read.
    """

    def __init__(self, name: str, process: trio.Process, guard: Guard, on_line: OnLine) -> None:
        self.name = name
        self.said: set[str] = set()
        self.ended = trio.Event()
        self.killed = False
        self._process = process
        self._guard = guard
        guard.add(process.pid)
        self._on_line = on_line
        self._news = trio.Condition()

    @classmethod
    async def start(
        cls, nursery: trio.Nursery, guard: Guard, name: str, arguments: Sequence[str], log: Path, on_line: OnLine
    ) -> Child:
        """Start this Python in this tree; its errors go to a file, and it finds no servers but its own kind's.

        It is killed when the nursery is cancelled, or when this process is.
        """
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(log.parent)}
        with log.open("ab") as errors:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors
            )
        child = cls(name, process, guard, on_line)
        nursery.start_soon(child._read)
        return child

    @property
    def status(self) -> int | None:
        """Its exit status once it has ended."""
        return self._process.poll()

    def waited(self) -> float:
        """Milliseconds in which it could run and others had the processors; 0 where the system does not say."""
        try:
            return int(Path(f"/proc/{self._process.pid}/schedstat").read_text("ascii").split()[1]) / 1e6
        except OSError:
            return 0.0

    async def wait_said(self, word: str, timeout: float) -> bool:
        """Whether a line that begins with `word` comes in time."""
        with trio.move_on_after(timeout):
            async with self._news:
                while word not in self.said and not self.ended.is_set():
                    await self._news.wait()
        return word in self.said

    async def kill(self) -> None:
        """SIGKILL, and wait until what it wrote was read."""
        self.killed = True
        self._process.kill()
        await self.ended.wait()

    async def stop(self, timeout: float) -> bool:
        """SIGTERM; whether it ended in order and in time."""
        self._process.terminate()
        with trio.move_on_after(timeout):
            await self.ended.wait()
            return self.status == 0
        await self.kill()
        return False

    def pause(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    async def _read(self) -> None:
        try:
            await self._read_all()
        finally:
            self._process.kill()  # it runs only when this was cancelled
            with trio.move_on_after(GONE_WITHIN, shield=True):
                await self._process.wait()
                self._guard.remove(self._process.pid)
        self.ended.set()
        await self._tell()

    async def _read_all(self) -> None:
        assert self._process.stdout is not None
        rest = b""
        while data := await self._process.stdout.receive_some(READ_SIZE):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                words = line.decode("utf-8", "replace").split(" ")
                self.said.add(words[0])
                self._on_line(self, words)
            await self._tell()
        await self._process.wait()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()
