"""Fixtures for the tests beside Apache's servers, which run once for each line of releases unless they say why not.

One cluster of a line is shared by all tests, and gone before that of the next line starts. Without Java the tests skip
and say what is missing; with CI set the same is a failure. A failed test shows the latest output of every server that
was up.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.interop import jobs, jvm
from tests.interop.apache import LINES, VERSION, Apache, Cluster, unavailable
from tests.interop.drivers import JavaAdmin, java_admins
from tests.interop.late_starters import late_starters_last
from tests.interop.mixed import Mixed, mixed_cluster
from tests.interop.ours import our_cluster
from tests.interop.process import running_reports
from tests.interop.requirement import require
from tests.interop.settings import QUICK_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_numbers = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what needs Apache's releases on both lines, or on the one that `one_line` names.

    What is marked `older_by_night` runs on the older line by night only.

    The scope brings the tests of a line together, so that its servers start once.
    """
    if "apache" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("one_line")
        lines = LINES
        if marker is not None:
            version, _why = marker.args
            lines = (version,)
        if metafunc.definition.get_closest_marker("older_by_night") is not None:
            lines = [line if line == VERSION else pytest.param(line, marks=pytest.mark.nightly) for line in lines]
        metafunc.parametrize("apache", lines, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have files that use more of a line's servers come after the others, as those run until the end of the line."""
    items[:] = late_starters_last(items)


@pytest.fixture(scope="session")
def apache(request: pytest.FixtureRequest) -> Iterator[Apache]:
    """A release of Apache RocketMQ, resolved; its servers start with the quick JVM options, its clients share a JVM."""
    version: str = request.param
    require(unavailable(version))
    release = Apache.resolve(version, options=jvm.QUICK)
    with jobs.shared(release):
        yield release


@pytest.fixture(scope="session")
def both_lines() -> tuple[Apache, ...]:
    """The releases of both lines at once."""
    for version in LINES:
        require(unavailable(version))
    return tuple(Apache.resolve(version, options=jvm.QUICK) for version in LINES)


# Servers that run idle take a tenth of a core each: they end with the tests of this folder, not of the session.


@pytest.fixture(scope="package")
def apache_cluster(apache: Apache) -> Iterator[Cluster]:
    """One Apache name server and one Apache broker, shared: use topics and groups of your own."""
    with apache.cluster(overrides=QUICK_RETRIES) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def admin_at(apache: Apache) -> Iterator[Callable[[str], JavaAdmin]]:
    """Gives Apache's admin client of a name server; all of them share a JVM."""
    with java_admins(apache) as admin_of:
        yield admin_of


@pytest.fixture(scope="package")
def apache_admin(admin_at: Callable[[str], JavaAdmin], apache_cluster: Cluster) -> JavaAdmin:
    """Apache's admin client on the shared cluster."""
    return admin_at(apache_cluster.namesrv)


@pytest.fixture(scope="package")
def our_servers() -> Iterator[Cluster]:
    """One name server and one broker of ours, shared likewise."""
    with our_cluster(overrides=QUICK_RETRIES) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def our_admin(admin_at: Callable[[str], JavaAdmin], our_servers: Cluster) -> JavaAdmin:
    """Apache's admin client on our servers."""
    return admin_at(our_servers.namesrv)


@pytest.fixture(scope="package")
def mixed(apache: Apache) -> Iterator[Mixed]:
    """A name server and a broker of either kind, every broker registered with both."""
    with mixed_cluster(apache) as cluster:
        yield cluster


@pytest.fixture
def fresh_name() -> Callable[[str], str]:
    """Topic and group names that no other test of the session uses."""

    def fresh(stem: str) -> str:
        return f"{stem}-{next(_numbers)}"

    return fresh


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the servers' output into the report of a failed test."""
    del item, call
    report = yield
    if report.failed:
        report.sections.extend(running_reports())
    return report
