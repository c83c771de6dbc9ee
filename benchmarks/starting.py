"""How long things take to start: imports, and a program until its first message is acknowledged."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.processes import ROOT, Child, environment
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError

_TRIO = """
import sys, trio, rocketpy
async def main(namesrv, topic):
    async with rocketpy.Producer("bench_start", namesrv=namesrv) as producer:
        await producer.send(rocketpy.Message(topic, b"first"))
        print("acknowledged", flush=True)
trio.run(main, *sys.argv[1:])
"""
_BLOCKING = """
import sys
from rocketpy.sync import Message, Producer
with Producer("bench_start", namesrv=sys.argv[1]) as producer:
    producer.send(Message(sys.argv[2], b"first"))
    print("acknowledged", flush=True)
"""
_ASYNCIO = """
import asyncio, sys
from rocketpy.aio import Message, Producer
async def main(namesrv, topic):
    async with Producer("bench_start", namesrv=namesrv) as producer:
        await producer.send(Message(topic, b"first"))
        print("acknowledged", flush=True)
asyncio.run(main(*sys.argv[1:]))
"""
_PROGRAMS = {"trio": _TRIO, "blocking": _BLOCKING, "asyncio": _ASYNCIO}
FLOOR = "import-floor"
_IMPORTS = {
    FLOOR: "import trio, attrs",
    "import": "import rocketpy",
    "import-trio": "from rocketpy import Producer",
    "import-sync": "from rocketpy.sync import Producer",
    "import-aio": "from rocketpy.aio import Producer",
}
IMPORTED = {
    FLOOR: "trio and attrs",
    "import": "rocketpy",
    "import-trio": "rocketpy.Producer",
    "import-sync": "rocketpy.sync.Producer",
    "import-aio": "rocketpy.aio.Producer",
}
"""What each of them imports, for readers."""


def first_send(surface: str, namesrv: str, topic: str, tree: Path | None = None) -> Outcome:
    """From the start of a process to its first acknowledged send, in ms."""
    child = Child("-c", _PROGRAMS[surface], namesrv, topic, tree=tree)
    try:
        child.line()
        return Outcome(child.age() * 1e3, 1)
    finally:
        child.kill()


def imported(name: str, tree: Path | None = None) -> Outcome:
    """From the start of an interpreter to its end, with an import in between, in ms."""
    code = _IMPORTS[name]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree or ROOT,
        env=environment(tree),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    if done.returncode:
        raise BenchmarkError(f"`{code}` failed: {done.stderr}")
    return Outcome(took * 1e3, 1)
