"""A pytest plugin: fixtures that start a RocketMQ cluster for a test.

    rocketmq            BlockingLocalCluster, for tests without a loop
    rocketmq_asyncio    AsyncioLocalCluster, for asyncio tests with any runner
    rocketmq_trio       LocalCluster in the loop of a trio test, in memory and in virtual time
    rocketmq_session    BlockingLocalCluster that all tests share

``@pytest.mark.rocketmq(brokers=2, topics=["Orders"], auto_create_topic_enable=False)`` configures the cluster of a
test, a class or a module. rocketpy is not imported before a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rocketpy_broker_sim import AsyncioLocalCluster, BlockingLocalCluster, LocalCluster

__all__ = ["rocketmq", "rocketmq_asyncio", "rocketmq_session", "rocketmq_settings", "rocketmq_trio"]

MARK = "rocketmq"
_LINE = (
    "rocketmq(*, topics=(), virtual_time=True, **settings): configures the cluster of the test. `topics` are created "
    "before the test: a list for 4 queues each, or a mapping to their number; `virtual_time` is for rocketmq_trio; "
    "the rest goes to the cluster: brokers=2, name_servers=2, data=path, settings of brokers in snake case."
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _LINE)


# --- settings of a cluster -----------------------------------------------------------------------------


class _Wanted:
    """The settings of a test's cluster. The marker of the test takes precedence over those of its class and module."""

    def __init__(self, settings: object, node: pytest.Item | None = None) -> None:
        if not isinstance(settings, Mapping):
            raise pytest.UsageError(f"rocketmq_settings must return a dictionary of settings, not {settings!r:.100}")
        wanted = dict(settings)
        marks = list(node.iter_markers(MARK)) if node is not None else []
        for mark in reversed(marks):
            if mark.args:
                raise pytest.UsageError(f"@pytest.mark.rocketmq{mark.args!r}: use keyword arguments, as in brokers=2")
            wanted.update(mark.kwargs)
        self.virtual_time: bool = wanted.pop("virtual_time", True)
        if not isinstance(self.virtual_time, bool):
            raise pytest.UsageError(f"virtual_time must be True or False, not {self.virtual_time!r:.100}")
        self.topics = _queues_by_topic(wanted.pop("topics", ()))
        self.settings = wanted


def _queues_by_topic(topics: object) -> dict[str, int]:
    if isinstance(topics, Mapping):
        return dict(topics)
    if not isinstance(topics, Iterable) or isinstance(topics, bytes):
        raise pytest.UsageError(
            f'topics={topics!r:.100}: pass a list, as in topics=["Orders"], or a mapping to the numbers of queues, '
            'as in topics={"Orders": 8}'
        )
    names = [topics] if isinstance(topics, str) else list(topics)
    for name in names:
        if not isinstance(name, str):
            raise pytest.UsageError(f"topics={topics!r:.100}: {name!r:.100} is not a name")
    return dict.fromkeys(names, 4)


@pytest.fixture(scope="session")
def rocketmq_settings() -> dict[str, Any]:
    """Settings for the clusters of all tests, with the keywords of the marker. Override this fixture in a project."""
    return {}


# --- blocking code -------------------------------------------------------------------------------------


@pytest.fixture
def rocketmq(request: pytest.FixtureRequest, rocketmq_settings: dict[str, Any]) -> Iterator[BlockingLocalCluster]:
    """A cluster in a background thread. Pass ``rocketmq.name_server_addresses`` to producers and consumers."""
    yield from _blocking(_Wanted(rocketmq_settings, request.node))


@pytest.fixture(scope="session")
def rocketmq_session(rocketmq_settings: dict[str, Any]) -> Iterator[BlockingLocalCluster]:
    """A cluster that all tests share, for services that start once. Each test should use topics of its own."""
    yield from _blocking(_Wanted(rocketmq_settings))


def _blocking(wanted: _Wanted) -> Iterator[BlockingLocalCluster]:
    from rocketpy_broker_sim import BlockingLocalCluster

    with BlockingLocalCluster(**wanted.settings) as cluster:
        for topic, queues in wanted.topics.items():
            cluster.create_topic(topic, queues=queues)
        yield cluster


# --- asyncio -------------------------------------------------------------------------------------------


@pytest.fixture
def rocketmq_asyncio(
    request: pytest.FixtureRequest, rocketmq_settings: dict[str, Any]
) -> Iterator[AsyncioLocalCluster]:
    """A cluster in a background thread, whose methods asyncio code awaits.

    It belongs to no loop, so it works with pytest-asyncio, with anyio, and with ``asyncio.run`` in a plain test.
    """
    from rocketpy_broker_sim import AsyncioLocalCluster

    wanted = _Wanted(rocketmq_settings, request.node)
    cluster = AsyncioLocalCluster(**wanted.settings)
    with cluster.blocking:
        for topic, queues in wanted.topics.items():
            cluster.blocking.create_topic(topic, queues=queues)
        yield cluster


# --- trio ----------------------------------------------------------------------------------------------

_PYTEST_TRIO = ("trio", "pytest_trio.plugin")
"""The names under which pytest may know the plugin, depending on how it was loaded."""


@pytest.fixture
def _rocketmq_trio_wanted(request: pytest.FixtureRequest, rocketmq_settings: dict[str, Any]) -> _Wanted:
    """The settings of `rocketmq_trio`. Refuses tests that do not run on trio, and sets the clock of the others."""
    wanted = _Wanted(rocketmq_settings, request.node)
    wanted.settings.setdefault("network", "memory")
    marker = request.node.get_closest_marker("trio")
    is_trio = marker is not None and any(map(request.config.pluginmanager.hasplugin, _PYTEST_TRIO))
    if not is_trio:
        _refuse_other_than_anyio_on_trio(request)
    elif wanted.virtual_time and wanted.settings["network"] == "memory":
        run = marker.kwargs.get("run") if marker is not None else None
        request.node.add_marker(pytest.mark.trio(run=_in_virtual_time(run)), append=False)
    return wanted


def _refuse_other_than_anyio_on_trio(request: pytest.FixtureRequest) -> None:
    if "anyio_backend" not in request.fixturenames:
        pytest.fail(_NOT_TRIO.format(test=request.node.name), pytrace=False)
    backend = request.getfixturevalue("anyio_backend")
    name = backend if isinstance(backend, str) else backend[0]
    if name != "trio":
        pytest.skip(f"rocketmq_trio needs the trio backend of anyio, and this is {name}: use rocketmq_asyncio")


_NOT_TRIO = (
    "rocketmq_trio runs in the loop of a trio test, and {test} is not one. Make it an `async def` test of pytest-trio "
    "(install pytest-trio and set trio_mode = true, or mark the test with @pytest.mark.trio). Other tests use rocketmq "
    "(no loop) or rocketmq_asyncio (asyncio)."
)


def _in_virtual_time(run: Callable[..., Any] | None) -> Callable[..., Any]:
    """Have pytest-trio run the test with a mock clock that jumps ahead as soon as all tasks wait.

    A clock that the test requests itself (`mock_clock`, `autojump_clock`) takes precedence.
    """

    def run_in_virtual_time(main: Callable[..., Any], *args: Any, clock: Any = None, **options: Any) -> Any:
        import trio
        import trio.testing

        clock = clock or trio.testing.MockClock(autojump_threshold=0)
        return (run or trio.run)(main, *args, clock=clock, **options)

    return run_in_virtual_time


@pytest.fixture
async def rocketmq_trio(_rocketmq_trio_wanted: _Wanted) -> AsyncIterator[LocalCluster]:
    """A cluster in the loop of the test, in memory and, with pytest-trio, in virtual time.

    Pass ``namesrv=rocketmq_trio.name_server_addresses, network=rocketmq_trio.network`` to clients.
    """
    from rocketpy_broker_sim import LocalCluster

    async with LocalCluster(**_rocketmq_trio_wanted.settings) as cluster:
        for topic, queues in _rocketmq_trio_wanted.topics.items():
            await cluster.create_topic(topic, queues=queues)
        yield cluster
