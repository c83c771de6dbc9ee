"""A pytest plugin: collects the tests once, then runs some of them, again and again, each time in a fork of itself.

Requests come and answers go as lines of JSON, through the two descriptors that `MUTANTS_PIPES` names. A request is
`{"tests": [id, ...], "limits": [seconds, ...], "patch": [path, old, new] or null}`; the answer to it says what became
of the tests: `{"state": "passed" | "failed" | "hung" | "cannot patch", "test": id or null}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import IO, Any

import pytest

from tools.mutants.patching import Live
from tools.mutants.processes import adopt_orphans, end_children

PIPES = "MUTANTS_PIPES"
MEMORY = 6 << 30
"""What a child may map: a mutant that never stops growing must not take the machine with it."""
ENDING = 10.0


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Serve requests in place of running what was collected."""
    asking, answering = (os.fdopen(int(number), mode) for number, mode in zip(_pipes(), "rw", strict=True))
    with asking, answering:
        adopt_orphans()
        signal.signal(signal.SIGTERM, _leave)
        items = {item.nodeid: item for item in session.items}
        live = Live()
        _answer(answering, {"state": "ready" if not session.testsfailed else "failed", "tests": len(items)})
        for line in asking:
            _answer(answering, _served(session, items, live, json.loads(line)))
    return True


def _pipes() -> list[str]:
    return os.environ.pop(PIPES).split(",")


def _answer(stream: IO[str], answer: Mapping[str, Any]) -> None:
    print(json.dumps(answer), file=stream, flush=True)


def _served(
    session: pytest.Session, items: Mapping[str, pytest.Item], live: Live, request: Mapping[str, Any]
) -> dict[str, Any]:
    wanted = [(items[name], limit) for name, limit in zip(request["tests"], request["limits"], strict=True)]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _in_child(session, [item for item, _ in wanted], live, request["patch"], writing)
    os.close(writing)
    within = 0.0
    try:
        answer = _watched(reading, [limit for _, limit in wanted], request["tests"])
        within = 0 if answer["state"] == "hung" else ENDING
    finally:
        os.close(reading)
        _end(child, within)
    return answer


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End what is running, and then this process."""
    raise SystemExit


def _watched(reading: int, limits: list[float], names: list[str]) -> dict[str, Any]:
    """Follow the child, which writes a byte for each test that passed; nothing for too long means that it hangs."""
    number = 0
    poll = select.poll()  # unlike `select`, it takes any file descriptor
    poll.register(reading, select.POLLIN)
    while True:
        limit = limits[number] if number < len(limits) else ENDING
        name = names[number] if number < len(names) else None
        if not poll.poll(limit * 1000):
            return {"state": "hung", "test": name}
        for sign in os.read(reading, 1000) or b"X":
            match chr(sign):
                case ".":
                    number += 1
                case "P":
                    return {"state": "cannot patch", "test": None}
                case "E":
                    return {"state": "passed", "test": None}
                case _:  # a failure, or the end of a child that died
                    return {"state": "failed", "test": names[min(number, len(names) - 1)] if names else None}


def _end(child: int, within: float) -> None:
    """Let the child end its servers and remove its files, then see to it that nothing of it is left."""
    deadline = time.monotonic() + within
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) and time.monotonic() < deadline:
        time.sleep(0.005)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    end_children()


# ------------------------------------------------------------------------------------------- in the child


def _in_child(
    session: pytest.Session, items: list[pytest.Item], live: Live, patch: tuple[str, str, str] | None, writing: int
) -> None:
    """Run the tests until one fails, and end."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if patch and not live.patch(*patch):
            os.write(writing, b"P")
            return
        for sign in _signs(session, items):
            os.write(writing, sign)
    except BaseException:  # noqa: BLE001 - whatever a mutant does to pytest itself was noticed
        os.write(writing, b"F")
    finally:
        os._exit(0)


def _signs(session: pytest.Session, items: list[pytest.Item]) -> Iterator[bytes]:
    failures = Failures()
    session.config.pluginmanager.register(failures)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.seen:
            break
        yield b"."
    yield b"F" if failures.seen else b"E"
    session.config.hook.pytest_sessionfinish(session=session, exitstatus=0)


class Failures:
    """Whether a test, its setup or its teardown failed."""

    def __init__(self) -> None:
        self.seen = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seen = self.seen or report.failed
