"""What the documentation shows of commands is what they say; only addresses, processes and folders differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_sim.cli.servers import FREE_PORT, ROOT, STOCK, Place

HOWTO = ROOT / "docs" / "howto"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OURS = re.compile(r"rocketpy-(namesrv|broker|broker-sim|store)\b")

pytestmark = pytest.mark.slow


def shown(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command on a page, and what it says there."""
    for block in BLOCK.findall(page.read_text("utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *said = part.splitlines()
            yield command, said


SHOWN = {command: said for page in sorted(HOWTO.glob("*.md")) for command, said in shown(page)}
"""What each command of ours says in the how-tos, by the line that calls it."""


def shape(line: str) -> str:
    """A line without what is different each time."""
    line = re.sub(r"\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS", line)
    return re.sub(r"/\S+", "FOLDER", re.sub(r"pid \d+", "pid N", line))


def test_every_command_that_is_shown_is_tried_here() -> None:
    assert {command for command in SHOWN if OURS.match(command)} == {
        "rocketpy-broker -c broker.conf -m | head -4",
        "rocketpy-broker -c conf/broker.conf -n 127.0.0.1:9876",
        "rocketpy-broker-sim",
        "rocketpy-broker-sim stop broker",
        "rocketpy-namesrv",
    }


def test_the_main_settings_are_printed_as_shown(place: Place) -> None:
    path = place.write("broker.conf", "bindAddress=127.0.0.1\n")
    printed = place.run("rocketpy-broker", "-c", path, "-m").stdout.splitlines()
    assert printed[:4] == SHOWN["rocketpy-broker -c broker.conf -m | head -4"]


def test_a_cluster_of_one_process_boots_as_shown(place: Place) -> None:
    with place.serving("rocketpy-broker-sim", "--port", "0") as server:
        assert [shape(server.line)] == [shape(line) for line in SHOWN["rocketpy-broker-sim"]]


def test_servers_boot_and_stop_as_shown(place: Place) -> None:
    names, files = place.write("names.conf", FREE_PORT), place.write("broker.conf", STOCK + FREE_PORT)
    with place.serving("rocketpy-namesrv", "-c", names) as name_server:
        assert [shape(name_server.line)] == [shape(line) for line in SHOWN["rocketpy-namesrv"]]
        with place.serving("rocketpy-broker", "-c", files, "-n", name_server.address) as broker:
            said = SHOWN["rocketpy-broker -c conf/broker.conf -n 127.0.0.1:9876"]
            assert [shape(broker.line)] == [shape(line) for line in said]
            stopped = place.run("rocketpy-broker-sim", "stop", "broker").stdout.splitlines()
            assert list(map(shape, stopped)) == list(map(shape, SHOWN["rocketpy-broker-sim stop broker"]))
