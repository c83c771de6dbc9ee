"""The pytest plugin as a project uses it: in a pytest of its own, with and without other plugins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PLUGIN = "rocketpy_broker_sim.pytest_plugin"
WITHIN = 120.0
"""Seconds that a pytest may take: an hour of virtual time takes none of them, and must not become a real one."""

pytestmark = pytest.mark.slow  # each test starts a pytest
pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory for tests of a user, who has this checkout on the path and takes no warning."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyprojecttoml(
        """
        [tool.pytest.ini_options]
        addopts = "-p rocketpy_broker_sim.pytest_plugin -p no:randomly -p no:cacheprovider --strict-markers"
        filterwarnings = ["error"]
        """
    )
    return pytester


def run(project: pytest.Pytester, test: str, *options: str, **outcomes: int) -> pytest.RunResult:
    project.makepyfile(test)
    result = project.runpytest_subprocess(*options, timeout=WITHIN)
    result.assert_outcomes(**(outcomes or {"passed": 1}))
    return result


def said(result: pytest.RunResult) -> str:
    return "\n".join([*result.outlines, *result.errlines])


# --- loading -------------------------------------------------------------------------------------------


def test_the_plugin_loads_nothing_before_a_fixture_is_asked_for(project: pytest.Pytester) -> None:
    test = """
        import sys

        def ours() -> set[str]:
            tops = {"trio", "attrs", "rocketpy", "rocketpy_broker_sim"}
            return {name for name in sys.modules if name.partition(".")[0] in tops}

        def test_nothing_is_there_but_the_plugin():
            assert "rocketpy_broker_sim.pytest_plugin" in ours()
            assert ours() == {"rocketpy_broker_sim", "rocketpy_broker_sim.pytest_plugin"}

        def test_everything_is_there(rocketmq):
            assert {"trio", "rocketpy", "rocketpy_broker_sim.cluster.local"} <= ours()
    """
    run(project, test, "-p", "no:trio", "-p", "no:anyio", "-p", "no:hypothesispytest", passed=2)


def test_it_is_an_entry_point_and_may_be_named_again() -> None:
    """pytest takes the name of an entry point and that of a module for one, if they are equal."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    assert scripts["pytest11"] == {PLUGIN: PLUGIN}


def test_naming_it_in_a_conftest_too_does_no_harm(project: pytest.Pytester) -> None:
    project.makeconftest(f'pytest_plugins = ["{PLUGIN}"]')
    run(project, "def test_one(rocketmq): assert rocketmq.broker_addresses")


# --- blocking ------------------------------------------------------------------------------------------


def test_every_test_has_a_cluster_of_its_own(project: pytest.Pytester) -> None:
    test = """
        import pytest
        import rocketpy.sync
        from rocketpy import Message

        @pytest.mark.parametrize("turn", [1, 2])
        def test_one(rocketmq, turn):
            assert rocketmq.messages("Orders") == []
            with rocketpy.sync.Producer("shop", namesrv=rocketmq.name_server_addresses) as producer:
                producer.send(Message("Orders", b"one coffee"))
            assert [message.body for message in rocketmq.messages("Orders")] == [b"one coffee"]
    """
    run(project, test, passed=2)


def test_markers_of_module_class_and_test_add_up(project: pytest.Pytester) -> None:
    test = """
        import pytest

        pytestmark = pytest.mark.rocketmq(brokers=2, topics=["Orders"], auto_create_topic_enable=False)

        def test_the_module(rocketmq):
            assert len(rocketmq.broker_addresses) == 2

        @pytest.mark.rocketmq(topics={"Payments": 1})
        class TestClass:
            @pytest.mark.rocketmq(brokers=1)
            def test_the_class(self, rocketmq):
                from rocketpy import Message, TopicNotExistError

                assert len(rocketmq.broker_addresses) == 1
                rocketmq.send(Message("Payments", b"42"))
                with pytest.raises(TopicNotExistError, match="create the topic first"):
                    rocketmq.send(Message("Orders", b"one coffee"))
    """
    run(project, test, passed=2)


def test_a_project_says_what_all_clusters_are_like(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def rocketmq_settings():
            return {"brokers": 2, "topics": ["Orders"]}
        """
    )
    test = """
        import pytest

        def test_shared(rocketmq_session):
            assert len(rocketmq_session.broker_addresses) == 2
            test_shared.addresses = rocketmq_session.broker_addresses

        def test_still_the_same(rocketmq_session):
            assert rocketmq_session.broker_addresses == test_shared.addresses

        @pytest.mark.rocketmq(brokers=1)
        def test_own(rocketmq, rocketmq_session):
            assert len(rocketmq.broker_addresses) == 1
            assert not {*rocketmq.broker_addresses} & {*rocketmq_session.broker_addresses}
    """
    run(project, test, passed=3)


MISTAKES = {
    "brokrs=2": "no setting 'brokrs'",
    "2": "use keyword arguments",
    "network='memory'": "always uses TCP",
    "brokers=0": "brokers must be at least 1, not 0",
    "topics=5": "topics=5: pass a list",
    "topics=['Orders', 5]": "5 is not a name",
    "topics={'Orders': 0}": "the number of queues of Orders must be 1 to 1024",
    "topics='two words'": "characters besides",
    "virtual_time='no'": "virtual_time must be True or False, not 'no'",
}


def test_a_mistake_in_a_marker_is_named(project: pytest.Pytester) -> None:
    """One pytest for all of them: each test has an error of its own, below a line that names the test."""
    tests = [
        f"@pytest.mark.rocketmq({mark})\ndef test_{number}(rocketmq):\n    pass\n"
        for number, mark in enumerate(MISTAKES)
    ]
    result = run(project, "\n".join(["import pytest\n", *tests]), errors=len(MISTAKES))
    _, *parts = re.split(r"_ ERROR at setup of test_(\d+) _", said(result).partition("short test summary")[0])
    errors = dict(zip(map(int, parts[::2]), parts[1::2], strict=True))
    wrong = [
        f"rocketmq({mark}): {expected!r} is not in\n{errors.get(number)}"
        for number, (mark, expected) in enumerate(MISTAKES.items())
        # The lines of pytest that begin with E are what was raised; the marker itself stands in the source above.
        if expected not in "\n".join(line for line in errors.get(number, "").splitlines() if line.startswith("E "))
    ]
    assert not wrong, "\n\n".join(wrong)


def test_settings_of_a_project_that_are_no_dictionary_are_named(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def rocketmq_settings():
            return ["brokers"]
        """
    )
    result = run(project, "def test_one(rocketmq): pass", errors=1)
    assert "rocketmq_settings must return a dictionary of settings, not ['brokers']" in said(result)


def test_a_failing_test_says_what_is_missing(project: pytest.Pytester) -> None:
    test = """
        import rocketpy.sync
        from rocketpy import Message

        def test_billing(rocketmq):
            rocketmq.send(Message("Orders", b"one coffee"))
            rocketmq.wait_consumed("billing", "Orders", timeout=0.05)
    """
    result = run(project, test, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*WaitTimeoutError: the group billing has not consumed all of Orders within 0.05 s:",
            "*no group billing has ever consumed here",
            "*Orders queue 0 of broker-a: 1 not consumed of 1",
            "*members of the group now: none",
        ]
    )


# --- trio ----------------------------------------------------------------------------------------------

TRIO_TEST = """
    import time

    import pytest
    import rocketpy
    import trio
    from rocketpy import Message
    from rocketpy_broker_sim import LocalCluster

    {mark}
    async def test_an_hour(rocketmq_trio: LocalCluster{more}):
        began, real = trio.current_time(), time.monotonic()
        settings = {{"namesrv": rocketmq_trio.name_server_addresses, "network": rocketmq_trio.network}}
        tries = []

        async def listener(message):
            tries.append(trio.current_time() - began)
            if len(tries) < 4:
                raise ValueError("not yet")

        async with rocketpy.PushConsumer("billing", **settings) as consumer:
            consumer.subscribe("Orders", listener)
            async with rocketpy.Producer("shop", **settings) as producer:
                await producer.send(Message("Orders", b"one coffee"))
            await rocketmq_trio.wait_consumed("billing", "Orders", timeout=3600)
        await trio.sleep(3600)
        assert [round(each, -1) for each in tries] == [0, 10, 40, 100]
        assert time.monotonic() - real < 30
"""


@pytest.mark.parametrize("more", ["", ", autojump_clock"])
def test_trio_tests_run_in_virtual_time(project: pytest.Pytester, more: str) -> None:
    run(project, TRIO_TEST.format(mark='@pytest.mark.rocketmq(topics=["Orders"])', more=more), "-o", "trio_mode=true")


def test_trio_tests_are_those_that_are_marked_so(project: pytest.Pytester) -> None:
    run(project, TRIO_TEST.format(mark='@pytest.mark.trio\n    @pytest.mark.rocketmq(topics="Orders")', more=""))


def test_real_time_for_trio_tests_that_ask_for_it(project: pytest.Pytester) -> None:
    test = """
        import pytest
        import trio

        def clock():
            return type(trio.lowlevel.current_clock()).__name__

        @pytest.mark.rocketmq(virtual_time=False)
        async def test_in_memory(rocketmq_trio):
            assert clock() != "MockClock"

        @pytest.mark.rocketmq(network="tcp")
        async def test_over_tcp(rocketmq_trio):
            assert clock() != "MockClock"

        async def test_virtual(rocketmq_trio):
            assert clock() == "MockClock"

        async def test_others_are_left_alone():
            assert clock() != "MockClock"
    """
    run(project, test, "-o", "trio_mode=true", passed=4)


NOT_FOR_TRIO = "rocketmq_trio runs in the loop of a trio test, and test_one is not one"


@pytest.mark.parametrize("options", [(), ("-p", "no:trio")])
@pytest.mark.parametrize("kind", ["", "async "])
def test_a_test_that_nobody_runs_on_trio_is_told_so(
    project: pytest.Pytester, kind: str, options: tuple[str, ...]
) -> None:
    result = run(project, f"{kind}def test_one(rocketmq_trio): pass", *options, errors=1)
    assert NOT_FOR_TRIO in said(result)
    assert "async fixture" not in said(result)


# --- asyncio -------------------------------------------------------------------------------------------


def test_asyncio_without_any_plugin(project: pytest.Pytester) -> None:
    test = """
        import asyncio
        import pytest
        from rocketpy import Message

        @pytest.mark.rocketmq(topics=["Orders"])
        def test_one(rocketmq_asyncio):
            async def main():
                found = asyncio.create_task(rocketmq_asyncio.wait_messages("Orders"))
                message_id = await rocketmq_asyncio.send(Message("Orders", b"one coffee"))
                assert [message.message_id for message in await found] == [message_id]

            asyncio.run(main())
    """
    run(project, test, "-p", "no:trio")
