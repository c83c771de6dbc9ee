"""How long things take to start: imports, and a program until its first message is acknowledged."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.processes import ROOT, Child, environment
from benchmarks.task import Outcome

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
_IMPORTS = {
    "import-floor": "import trio, attrs",
    "import": "import rocketpy",
    "import-trio": "from rocketpy import Producer",
    "import-sync": "from rocketpy.sync import Producer",
    "import-aio": "from rocketpy.aio import Producer",
}


def first_send(surface: str, namesrv: str, topic: str) -> Outcome:
    """From the start of a process to its first acknowledged send, in ms."""
    child = Child("-c", _PROGRAMS[surface], namesrv, topic)
    try:
        child.line()
        return Outcome(child.age() * 1e3, 1)
    finally:
        child.kill()


def imports() -> dict[str, Outcome]:
    """From the start of an interpreter to its end, with an import in between, in ms."""
    return {name: Outcome(_seconds(code) * 1e3, 1) for name, code in _IMPORTS.items()}


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=True)
    return time.perf_counter() - began
