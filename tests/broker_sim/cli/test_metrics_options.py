"""--metrics-port and --metrics-host of each command, and the same by a file: the ready line says where they are."""

from __future__ import annotations

import re
from urllib.request import urlopen

import pytest

from tests.broker_sim.cli.servers import FREE_PORT, Place

pytestmark = [pytest.mark.slow, pytest.mark.waits("servers are processes")]

SHOWN = re.compile(r", metrics (http://127\.0\.0\.1:\d+/metrics)")


def fetched(line: str) -> list[str]:
    """What each address in a ready line answers."""
    found = []
    for address in SHOWN.findall(line):
        with urlopen(address) as answer:
            found.append(answer.read().decode())
        with urlopen(address.replace("/metrics", "/healthz")) as answer:
            assert answer.read() == b"ok\n"
    return found


def test_name_server_and_broker_by_an_option_and_by_a_file(place: Place) -> None:
    names = place.write("names.conf", FREE_PORT)
    shown = "metricsExporterType=PROM\nmetricsPromExporterHost=127.0.0.1\nmetricsPromExporterPort=0\n"
    broker = place.write("broker.conf", FREE_PORT + shown)
    with place.serving("rocketpy-namesrv", "-c", names, "--metrics-port", "0") as name_server:
        (text,) = fetched(name_server.line)
        assert "\nrocketmq_namesrv_healthy 1.0\n" in text
        with place.serving("rocketpy-broker", "-c", broker, "-n", name_server.address) as server:
            (text,) = fetched(server.line)
            assert re.search(r'\nrocketmq_name_servers\{.*known="true"\} 1.0\n', text)


def test_both_in_one_process(place: Place) -> None:
    with place.serving("rocketpy-broker-sim", "--port", "0", "--metrics-port", "0") as server:
        assert ["rocketmq_namesrv_healthy" in text for text in fetched(server.line)] == [False, True]


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--metrics-port", "65536"), 2, "'65536' is not a number from 0 to 65535"),
        (("--metrics-host", "127.0.0.1"), 2, "give --metrics-port too"),
    ],
)
@pytest.mark.parametrize("program", ["rocketpy-namesrv", "rocketpy-broker", "rocketpy-broker-sim"])
def test_options_that_cannot_be_are_refused(
    place: Place, program: str, words: tuple[str, ...], status: int, says: str
) -> None:
    ended = place.run(program, *words)
    assert (ended.returncode, says in ended.stderr) == (status, True), ended.stderr


def test_other_machines_are_let_in_only_when_that_is_said(place: Place) -> None:
    ended = place.run("rocketpy-broker-sim", "--port", "0", "--metrics-port", "0", "--metrics-host", "0.0.0.0")
    assert (ended.returncode, "open to other machines" in ended.stderr) == (2, True), ended.stderr
