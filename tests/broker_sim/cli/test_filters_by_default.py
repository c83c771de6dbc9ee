"""Which servers filter by SQL92 when nothing is said: embedded ones do, those of a file only if it says so."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.network import Network, TcpNetwork
from rocketpy.wire.codes import RequestCode
from rocketpy_broker_sim import LocalCluster
from rocketpy_broker_sim.cli import broker
from rocketpy_broker_sim.config import parse_properties
from tests.broker_sim.broker.kit import client_of
from tests.broker_sim.cli.servers import FREE_PORT, Place

EMBEDDED = {
    "enablePropertyFilter": "true",
    "filterSupportRetry": "true",
    "enableCalcFilterBitMap": "true",
    "enableConsumeQueueExt": "true",
    "expectConsumerNumUseFilter": "32",
}
OF_A_FILE = {**dict.fromkeys(EMBEDDED, "false"), "expectConsumerNumUseFilter": "32"}
"""Apache's defaults."""


async def settings(network: Network, address: str) -> dict[str, str]:
    """What a broker says of its settings, as far as they are about filters."""
    async with client_of(network, address) as client:
        answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
    return about_filters(answer.body.decode())


def about_filters(text: str) -> dict[str, str]:
    printed = parse_properties(text)
    return {key: printed[key] for key in EMBEDDED}


async def test_F5_an_embedded_cluster_filters(autojump_clock: MockClock) -> None:
    async with LocalCluster(brokers=2, network="memory") as cluster:
        for each in cluster.brokers:
            assert await settings(cluster.network, each.address) == EMBEDDED


async def test_F5_an_embedded_cluster_can_be_told_not_to(autojump_clock: MockClock) -> None:
    off = {"enable_property_filter": False, "filter_support_retry": False}
    off |= {"enable_calc_filter_bit_map": False, "enable_consume_queue_ext": False}
    async with LocalCluster(network="memory", **off) as cluster:
        assert await settings(cluster.network, cluster.brokers[0].address) == OF_A_FILE


@pytest.mark.slow
def test_F5_the_command_filters(place: Place) -> None:
    with place.serving("rocketpy-broker-sim", "--port", "0") as server:
        assert trio.run(settings, TcpNetwork(), server.addresses[1]) == EMBEDDED
        assert server.stop().status == 0


@pytest.mark.slow
def test_F5_a_broker_with_a_file_filters_as_the_file_says(place: Place) -> None:
    for said, expected in (("", OF_A_FILE), ("".join(f"{key}=true\n" for key in list(EMBEDDED)[:4]), EMBEDDED)):
        with place.serving("rocketpy-broker", "-c", place.write("broker.conf", FREE_PORT + said)) as server:
            assert trio.run(settings, TcpNetwork(), server.address) == expected
            assert server.stop().status == 0


def test_F5_the_settings_that_are_printed_for_a_file(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert broker.main(["-c", place.write("broker.conf", FREE_PORT), "-p"]) == 0
    assert about_filters(capsys.readouterr().out) == OF_A_FILE
