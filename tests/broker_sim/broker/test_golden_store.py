"""A broker of ours goes on where Apache's stopped, in the very directory that it left."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.broker.transactions.window import Mark
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.broker.kit import broker_and_client, settings
from tests.broker_sim.broker.support import golden_file, golden_settings, golden_storage
from tests.broker_sim.broker.test_consumer_manage import commit, query
from tests.broker_sim.broker.transacting import COMMIT, end_fields, join, questions
from tests.virtual_time import loop_time

VERSIONS = ["5.3.3-clean", "5.3.3-killed", "4.9.7-clean"]


def like_apache(version: str) -> dict[str, Any]:
    """Our settings for a directory of Apache's."""
    theirs = golden_settings(version)
    return {
        "broker_cluster_name": theirs["brokerClusterName"],
        "broker_name": theirs["brokerName"],
        "mapped_file_size_commit_log": int(theirs["mappedFileSizeCommitLog"]),
        "mapped_file_size_consume_queue": int(theirs["mappedFileSizeConsumeQueue"]),
    }


@pytest.mark.parametrize("version", VERSIONS)
async def test_A10_OF2_topics_groups_and_offsets_of_apache_are_taken_over(
    autojump_clock: MockClock, version: str
) -> None:
    async with broker_and_client(storage=golden_storage(version, ""), **like_apache(version)) as (broker, client):
        topic = TopicConfig.decode((await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "GS_A"})).body)
        assert topic.read_queue_nums == 4
        assert {"CG_DLQ", "CG_RETRY"} <= set(broker.groups.all())
        for key, queues in parse_json(golden_file(version, "consumerOffset.json"))["offsetTable"].items():
            name, _, group = key.partition("@")
            for queue, offset in queues.items():
                answer = await query(client, group, name, int(queue))
                assert answer.ext_fields == {"offset": str(offset)}, key
                assert (await commit(client, offset, group, name, int(queue))).code == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_DL2_delayed_messages_of_apache_are_delivered_by_us(autojump_clock: MockClock, version: str) -> None:
    storage = golden_storage(version, "")
    store = MessageStore(storage.clone(), settings(**like_apache(version)).store)
    store.load()
    (message,) = decode_messages(store.reads.get("SCHEDULE_TOPIC_XXXX", 4, 0, 1).records)
    place = message.wire_properties["REAL_TOPIC"], int(message.wire_properties["REAL_QID"])
    before = store.reads.max_offset(*place)
    store.close()
    start = message.store_timestamp + 30_000
    with wall_clock(loop_time(start)):
        async with broker_and_client(storage=storage, **like_apache(version)) as (broker, _):
            assert broker.delays.schedule.progress()[1] == 2
            await trio.sleep(29)
            assert broker.store.reads.max_offset(*place) == before
            await trio.sleep(2)
            assert broker.store.reads.max_offset(*place) == before + 1
            (delivered,) = decode_messages(broker.store.reads.get(*place, before, 1).records)
            assert delivered.body == message.body
            assert delivered.wire_properties == message.wire_properties
            assert {level: offset for level, offset in broker.delays.schedule.progress().items() if offset} == {
                1: 2,
                5: 1,
            }


@pytest.mark.parametrize("version", VERSIONS)
async def test_TX2_open_transactions_of_apache_are_asked_about_by_us(autojump_clock: MockClock, version: str) -> None:
    storage = golden_storage(version, "")
    with wall_clock(loop_time(1_795_250_000_000)):  # half an hour after the broker was stopped
        async with broker_and_client(storage=storage, **like_apache(version)) as (broker, client):
            window = broker.transactions.ledger.window
            assert [offset for offset in range(7) if window.state(offset) is Mark.OPEN] == [2, 5]
            if version == "5.3.3-clean":
                assert broker.runtime_info()["openTransactions"] == "2"
            await join(client, "PG_TX")
            await trio.sleep(31)
            asked = [half for half, message in questions(client) if message.topic == "GS_TX"]
            assert [half.offset for half in asked] == [7, 8]
            end = end_fields(asked[0], COMMIT, producer_group="PG_TX", from_transaction_check=True)
            assert (await client.ask(RequestCode.END_TRANSACTION, end)).code == 0
            committed = decode_messages(broker.store.reads.get("GS_TX", 0, 0, 32).records)
            assert [message.keys for message in committed] == [("tx0",), ("tx3",), ("tx6",), ("tx2",)]
