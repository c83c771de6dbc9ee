"""Background work that dies is heard: it is restarted or ends its client, with one line of level error."""

from __future__ import annotations

import pytest

from tests.surfaces.surface import SURFACES
from tests.ways_out.crashes import COUNT, OF_CLIENTS, OF_CONSUMERS, RESTARTS_WITHIN
from tests.ways_out.quiet import check_quiet

LINES_OF_ONE_THAT_GOES_ON = 5
"""One a second at most, for as long as a service is watched that crashes each time."""
OF_CLOSING = {"offsets", "listeners"}
"""Closing relies on these: a bug that strikes there as well is another story."""


def cells(services, quick):
    for surface in SURFACES:
        for service in services:
            for often in ("once", "each time"):
                if often == "each time" and service in OF_CLOSING:
                    continue
                marks = () if (service, often) == (quick, "once") else pytest.mark.matrix
                yield pytest.param(surface, service, often == "each time", marks=marks)


def check_heard(ended, always):
    assert ended.status == 0, str(ended)
    assert ended.said["wrong"] == [], str(ended)
    assert ended.said["fired"], str(ended)
    check_quiet(ended)
    errors = [line for line in ended.err if line.startswith("ERROR rocketpy")]
    assert 1 <= len(errors) <= (LINES_OF_ONE_THAT_GOES_ON if always else 1), str(ended)
    assert "planted" in "\n".join(ended.err), str(ended)


@pytest.mark.parametrize(("surface", "service", "always"), list(cells(OF_CLIENTS, "routes")))
def test_sends_hear_of_a_service_that_crashes(case, surface, service, always):
    """Either everything goes on, or every send has failed and leaving the client says why."""
    ended = case.run("tests.ways_out.crashes:producing", surface=surface, service=service, always=always, limit=25.0)
    check_heard(ended, always)
    assert len(ended.said["outcomes"]) == COUNT, str(ended)
    assert ended.said.get("works") or ended.said.get("ended"), str(ended)
    if ended.said.get("works"):
        assert ended.said["stored"] == COUNT, str(ended)


@pytest.mark.slow
@pytest.mark.parametrize(("surface", "service", "always"), list(cells(OF_CONSUMERS, "offsets")))
def test_run_forever_hears_of_a_service_that_crashes(case, surface, service, always):
    """Either messages go on to come, or it raises what has happened."""
    case.with_message()
    limit = 22.0 + RESTARTS_WITHIN
    ended = case.run("tests.ways_out.crashes:consuming", surface=surface, service=service, always=always, limit=limit)
    check_heard(ended, always)
    assert ended.said["works"] or ended.said.get("ended"), str(ended)


@pytest.mark.matrix
@pytest.mark.parametrize("service", OF_CLIENTS)
@pytest.mark.parametrize("surface", SURFACES)
def test_another_client_goes_on(case, surface, service):
    ended = case.run("tests.ways_out.crashes:neighbours", surface=surface, service=service, limit=20.0)
    assert ended.status == 0, str(ended)
    assert ended.said["wrong"] == [], str(ended)
    assert ended.said["fired"], str(ended)
