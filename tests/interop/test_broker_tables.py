"""A directory handed from our broker to Apache's and back: topics, groups, offsets, what is forbidden, delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from rocketpy.errors import BrokerError
from rocketpy.remoting.network import TcpNetwork
from rocketpy.wire.codes import RequestCode
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.broker.kit import Client, client_of, settings
from tests.interop import probe
from tests.interop.apache import Apache, Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's server")]

DELAYS = "4s 1s 1s"
SIZES = {"mappedFileSizeCommitLog": 65_536, "mappedFileSizeConsumeQueue": 1_000, "messageDelayLevel": DELAYS}
TOPIC, GROUP, OTHER = "Handed-Tables", "handed-group", "Handed-Other"
NAME = "broker-handed"


def ours(root: Path, use: Callable[[Client], Awaitable[None]]) -> None:
    """Run our broker on a directory for a client."""

    async def run() -> None:
        network = TcpNetwork()
        config = settings(
            broker_name=NAME,
            message_delay_level=DELAYS,
            mapped_file_size_commit_log=SIZES["mappedFileSizeCommitLog"],
            mapped_file_size_consume_queue=SIZES["mappedFileSizeConsumeQueue"],
        )
        async with open_broker(config, network=network, storage=RealStorage(root)) as broker:
            async with client_of(network, broker.address) as client:
                await use(client)

    trio.run(run)


async def good(client: Client, code: RequestCode, body: bytes = b"", **fields: object) -> dict[str, str]:
    answer = await client.ask(code, {name: str(value) for name, value in fields.items()}, body)
    if answer.code != 0:
        raise BrokerError.for_code(answer.code, answer.remark, doing=code.name)
    return answer.ext_fields


async def fill(client: Client) -> None:
    """A topic with three queues and four messages, a group that has read two and may not read another topic."""
    await good(
        client,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        topic=TOPIC,
        defaultTopic="TBW102",
        readQueueNums=3,
        writeQueueNums=3,
        perm=6,
        topicFilterType="SINGLE_TAG",
        attributes="+message.type=DELAY",
    )
    group = b'{"groupName":"%s","retryMaxTimes":7}' % GROUP.encode()
    await good(client, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group)
    await good(client, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group=GROUP, topic=OTHER, readable="false")
    for number in range(4):
        assert (await client.send(TOPIC, b"%d" % number, queue_id=2)).code == 0
    await good(client, RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=GROUP, topic=TOPIC, queueId=2, commitOffset=2)
    assert (await client.send(TOPIC, b"later", "DELAY\x011\x02", queue_id=0)).code == 0


async def check(client: Client) -> None:
    """What Apache's broker did meanwhile stands, and its delivery is not repeated."""
    query = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 2}
    assert (await good(client, RequestCode.QUERY_CONSUMER_OFFSET, **query))["offset"] == "3"
    answer = await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": OTHER})
    assert answer.code == 0
    await trio.sleep(1)
    assert (await good(client, RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=0))["offset"] == "1"


@pytest.mark.one_line(
    "5.3.3", "4.x has no tables of attributes and of what is forbidden; test_same_home has the others"
)
def test_apaches_broker_goes_on_with_our_tables_and_we_with_its(
    apache: Apache, apache_cluster: Cluster, tmp_path: Path
) -> None:
    root = tmp_path / "apache" / "store"
    ours(root, fill)
    home = tmp_path / "apache"
    with apache.broker(apache_cluster.namesrv, name=NAME, home=home, overrides=SIZES) as broker:

        def ask(code: int, **fields: object) -> probe.Answer:
            return probe.call(broker.address, code, fields)

        topic = ask(RequestCode.GET_TOPIC_CONFIG, topic=TOPIC).json()
        assert (topic["readQueueNums"], topic["writeQueueNums"], topic["perm"]) == (3, 3, 6)
        assert topic["attributes"] == {"message.type": "DELAY"}
        assert ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group=GROUP).json()["retryMaxTimes"] == 7
        forbidden = ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group=GROUP, topic=OTHER)
        assert forbidden.json()["readable"] is False
        queue = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 2}
        assert ask(RequestCode.QUERY_CONSUMER_OFFSET, **queue).fields["offset"] == "2"
        assert ask(RequestCode.UPDATE_CONSUMER_OFFSET, **queue, commitOffset=3).code == 0
        probe.create_topic(broker.address, OTHER)

        def delivered() -> bool | None:
            return ask(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=0).fields["offset"] == "1" or None

        probe.eventually(delivered, "delayed message", 30)
    ours(root, check)
