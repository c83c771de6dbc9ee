"""Time is virtual in tests, or a test says why not."""

from __future__ import annotations

import pytest

from tests.rules import listed
from tests.waiting import HELPERS, TESTS, declared, hidden, main, stale, users

TEST = "import asyncio, time, trio\nimport pytest\n"


@pytest.mark.slow
def test_what_waits_for_real_time_says_why() -> None:
    found = [
        f"tests/{name}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if (name := path.relative_to(TESTS).as_posix()) not in HELPERS
        for line in hidden(path.read_text("utf-8"))
    ]
    listed(
        found,
        "use MockClock, an event or a seam; or say why it has to wait, by @pytest.mark.waits('why') in a test, "
        "by a line of HELPERS in tests/waiting.py for a module of helpers",
    )


@pytest.mark.slow
def test_the_list_of_helpers_is_up_to_date() -> None:
    assert stale() == []


@pytest.mark.parametrize(
    "body",
    [
        "def test_a():\n    time.sleep(0.1)",
        "def helper():\n    time.sleep(seconds)",
        "class Fake:\n    def helper(self):\n        time.sleep(1)",
        "def test_a():\n    def listener(m):\n        time.sleep(1)\n    run(listener)",
        "def test_a():\n    call(time.sleep, 1)",
        "async def test_a():\n    await (asyncio.sleep if x else trio.sleep)(0.1)",
        "async def test_a():\n    await trio.sleep(1)",
        "async def test_a(autojump_clock):\n    ...\nasync def test_b():\n    await trio.sleep(1)",
        "async def test_a(autojump_clock):\n    await asyncio.sleep(1)",
        "def test_a():\n    assert not event.wait(0.1)",
        "@pytest.mark.waits('')\ndef test_a():\n    time.sleep(1)",
        "from time import sleep\ndef test_a():\n    sleep(1)",
        "from trio import sleep\nasync def test_a():\n    await sleep(1)",
        "import time as t\ndef test_a():\n    t.sleep(1)",
        "def test_a():\n    thread.join(0.1)",
        "def test_a():\n    while work():\n        event.wait(0.005)",
        "def test_a(autojump_clock):\n    thread.join(timeout=0.1)",
        "SHORTLY = 0.1\ndef helper():\n    threading.Event().wait(SHORTLY)",
        "async def test_a():\n    with trio.move_on_after(0.1):\n        ...",
        "async def test_a():\n    async with asyncio.timeout(0.1):\n        ...",
        "async def test_a():\n    await asyncio.wait_for(work(), 0.1)",
        "def test_a():\n    producer.send(message, timeout=0.1)",
        "def test_a():\n    Producer('pg', close_timeout=0.5)",
        "def test_a():\n    consumer.wait_assigned(0.2)",
    ],
)
def test_a_hidden_wait_is_found(body: str) -> None:
    assert len(hidden(TEST + body)) >= 1


@pytest.mark.parametrize(
    "body",
    [
        "async def test_a(autojump_clock):\n    await trio.sleep(1)",
        "async def helper():\n    await trio.sleep(1)\nasync def test_a(autojump_clock):\n    await helper()",
        "def test_a():\n    trio.run(main, clock=MockClock())\n    trio.sleep(1)",
        "async def test_a():\n    await asyncio.sleep(0)\n    await trio.sleep(0)",
        "def test_a():\n    step = partial(asyncio.sleep, 0)",
        "def test_a():\n    assert event.wait(10)",
        "WAIT = 10\ndef test_a():\n    thread.join(WAIT)\n    future.result(timeout=WAIT)\n    event.wait()",
        "async def test_a(autojump_clock):\n    with trio.move_on_after(0.1):\n        await send(timeout=0.1)",
        "async def test_a():\n    async with asyncio.timeout(0), asyncio.timeout(9):\n        await send(timeout=None)",
        "def test_a():\n    return ', '.join(names) + clock.sleep(1)",
        "@pytest.mark.waits('a real thread')\ndef test_a():\n    time.sleep(1)",
        "pytestmark = [pytest.mark.slow, pytest.mark.waits('real threads')]\ndef helper():\n    time.sleep(1)",
    ],
)
def test_what_is_virtual_or_has_a_reason_passes(body: str) -> None:
    assert hidden(TEST + body) == []


@pytest.mark.slow
def test_the_list_names_tests_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    source = "@pytest.mark.waits('a real thread')\ndef test_a():\n    ...\n"
    assert list(declared(source)) == [("test_a", "a real thread")]
    assert list(declared("pytestmark = pytest.mark.waits('all')")) == [("", "all")]
    assert main() == 0
    assert "real signals" in capsys.readouterr().out


def test_the_list_follows_helpers_to_the_tests_that_import_them() -> None:
    imports = {
        "a/slow.py": set(),
        "a/between.py": {"tests.a.slow", "tests.a.slow.wait"},
        "a/test_direct.py": {"tests.a", "tests.a.slow"},
        "a/test_by_way.py": {"tests.a.between"},
        "a/conftest.py": {"tests.a.between"},
        "a/test_other.py": {"tests.a.slower", "slow"},
    }
    assert users("a/slow.py", imports) == ["a/conftest.py", "a/test_by_way.py", "a/test_direct.py"]
