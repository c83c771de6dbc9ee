"""Messages asked for by id, by key and by unique id, over the wire."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageExt
from rocketpy.seams import wall_clock
from rocketpy.wire.batch import encode_batch
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.message_id import decode_offset_message_id
from rocketpy_broker_sim.store.checkpoint import read_checkpoint
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.index import catch_up as index_catch_up
from rocketpy_broker_sim.store.index.file import IndexFile, IndexShape
from tests.broker_sim.broker.kit import Client, bodies, broker_and_client, send_fields
from tests.wire.golden import load

SCENARIOS = ["5.3.3-json", "5.3.3-rocketmq", "4.9.7-json", "4.9.7-rocketmq"]
LAST = (1 << 63) - 1


async def query(
    client: Client, key: str, *, topic: str = "T", most: int = 32, span: tuple[int, int] = (0, LAST), **more: bool
) -> RemotingCommand:
    header = QueryMessageRequestHeader(
        topic=topic, key=key, max_num=most, begin_timestamp=span[0], end_timestamp=span[1], **more
    )
    return await client.ask(RequestCode.QUERY_MESSAGE, header.to_ext())


async def view(client: Client, message_id: str) -> RemotingCommand:
    offset = decode_offset_message_id(message_id).offset
    return await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=offset).to_ext())


def only(answer: RemotingCommand) -> MessageExt:
    assert answer.code == 0, answer.remark
    (message,) = decode_messages(answer.body)
    return message


def told(message: MessageExt) -> tuple[Any, ...]:
    properties = dict(message.wire_properties)
    return message.topic, message.queue_id, message.queue_offset, message.body, message.flag, properties


async def test_a_key_that_no_message_can_have_is_not_looked_for(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        found = broker.store.keys.query_steps
        asked: list[str] = []
        broker.store.keys.query_steps = lambda topic, key, *rest: asked.append(key) or found(topic, key, *rest)
        for length in (32_767, 32_768, 1_000_000):
            answer = await query(client, "x" * length)
            assert answer.code == ResponseCode.QUERY_NOT_FOUND
            assert set(answer.ext_fields) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
        assert [len(key) for key in asked] == [32_767]


async def test_a_query_gives_no_more_than_a_frame_holds(autojump_clock: MockClock) -> None:
    size = 4 * 1024 * 1024
    async with broker_and_client(mapped_file_size_commit_log=2 * size, max_message_size=size) as (_, client):
        for number in range(5):
            sent = await client.send(body=b"%d" % number + bytes(size - 1), properties="KEYS\x01large\x02")
            assert sent.code == 0, sent.remark
        answer = await query(client, "large")
        assert answer.code == 0, answer.remark
        assert [message.body[:1] for message in decode_messages(answer.body)] == [b"2", b"3", b"4"]


# --- by message id ---------------------------------------------------------------------------------------


async def test_Q1_a_message_is_found_by_its_id(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for number in range(3):
            sent = await client.send(body=b"body %d" % number, properties=f"KEYS\x01k{number}\x02n\x01{number}\x02")
            message_id = sent.ext_fields["msgId"]
            message = only(await view(client, message_id))
            assert message.body == b"body %d" % number
            assert (message.topic, message.queue_offset, message.properties["n"]) == ("T", number, str(number))
            assert message.offset_message_id == message_id
            place = decode_offset_message_id(message_id)
            assert f"{place.ip}:{place.port}" == broker.address


async def test_threat_M12_a_damaged_message_is_not_given_out(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        sent = await client.send(body=b"x" * 200, properties="KEYS\x01k\x02")
        storage.open(f"commitlog/{0:020d}").pwrite(b"y", 150)
        found = await query(client, "k")
        for answer in (await view(client, sent.ext_fields["msgId"]), found):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "commitlog" not in (answer.remark or "")
            assert not answer.body


@pytest.mark.parametrize("offset", [1, 87, 1 << 40, -1, -(1 << 63), LAST])
async def test_Q1_a_wrong_id_finds_nothing(autojump_clock: MockClock, offset: int) -> None:
    async with broker_and_client() as (_, client):
        await client.send(body=b"x" * 200)
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"can not find message by the offset, {offset}"
        assert not answer.body


@pytest.mark.parametrize("message_id", ["", "7F00000100002A9F", "Z" * 32, "7F000001" * 5, None])
def test_Q1_what_is_no_id_is_said_to_be_none(message_id: str | None) -> None:
    with pytest.raises(ConfigError, match=r"is not an offset message id"):
        decode_offset_message_id(message_id)  # type: ignore[arg-type]  # what a caller without types may do


async def test_Q1_a_request_without_a_position_is_refused(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID)
        assert answer.code != 0
        assert (await client.send()).code == 0


# --- by key ----------------------------------------------------------------------------------------------


async def test_Q2_messages_are_found_by_key_in_the_order_of_the_log(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for number in range(5):
            keys = f"k{number} shared" if number != 3 else "k3"
            await client.send(body=b"%d" % number, properties=f"KEYS\x01{keys}\x02", queue_id=number % 2)
        await client.send("Other", b"other", "KEYS\x01shared\x02")
        answer = await query(client, "shared")
        assert bodies(answer) == [b"0", b"1", b"2", b"4"]
        last = broker.store.index.files[-1].header
        assert answer.ext_fields == {
            "indexLastUpdateTimestamp": str(last.end_timestamp),
            "indexLastUpdatePhyoffset": str(last.end_position),
        }
        assert bodies(await query(client, "k3")) == [b"3"]
        assert bodies(await query(client, "shared", topic="Other")) == [b"other"]


async def test_Q2_no_more_than_are_asked_for_and_the_newest_of_them(autojump_clock: MockClock) -> None:
    async with broker_and_client(default_query_max_num=3, max_msgs_num_batch=7) as (_, client):
        for number in range(12):
            await client.send(body=b"%d" % number, properties="KEYS\x01same\x02UNIQ_KEY\x01one\x02")
        assert bodies(await query(client, "same", most=2)) == [b"10", b"11"]
        assert bodies(await query(client, "same", most=64)) == [b"5", b"6", b"7", b"8", b"9", b"10", b"11"]
        assert bodies(await query(client, "one", most=64, unique_key_query=True)) == [b"9", b"10", b"11"]
        assert len(bodies(await query(client, "one", most=64, unique_key_query=False))) == 7
        assert (await query(client, "same", most=0)).code == ResponseCode.QUERY_NOT_FOUND


async def test_Q2_keys_with_one_hash_are_told_apart_by_what_the_message_carries(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send(body=b"one", properties="KEYS\x01Aa\x02")
        await client.send(body=b"two", properties="KEYS\x01BB\x02")
        answer = await query(client, "Aa")  # Java hashes both alike, and clients look again
        assert bodies(answer) == [b"one", b"two"]
        assert [message.keys for message in decode_messages(answer.body)] == [("Aa",), ("BB",)]
        checked = broker.store.keys.query("T", "Aa", 32, 0, LAST).with_key("Aa")
        assert [message.body for message in decode_messages(b"".join(checked))] == [b"one"]


async def test_Q2_messages_are_found_by_the_time_they_were_stored(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for second in (10, 20, 30):
            with wall_clock(lambda now=1_700_000_000_000 + second * 1000: now):
                await client.send(body=b"%d" % second, properties="KEYS\x01k\x02")
        start = 1_700_000_000_000
        assert bodies(await query(client, "k", span=(start + 15_000, start + 25_000))) == [b"20"]
        assert bodies(await query(client, "k", span=(start, start + 20_000))) == [b"10", b"20"]
        assert (await query(client, "k", span=(start + 31_000, LAST))).code == ResponseCode.QUERY_NOT_FOUND


async def test_Q2_what_is_not_there_is_answered_as_apache_answers(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send(properties="KEYS\x01k\x02")
        for key, topic in (("nope", "T"), ("k", "Nowhere"), ("", "T"), ("k", "../../etc")):
            answer = await query(client, key, topic=topic)
            assert answer.code == ResponseCode.QUERY_NOT_FOUND
            assert answer.remark == "can not find message, maybe time range not correct"
            assert answer.ext_fields == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}


async def test_queries_find_what_was_sent_before_a_restart(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        message_id = (await client.send(body=b"kept", properties="KEYS\x01k\x02")).ext_fields["msgId"]
    async with broker_and_client(storage=storage) as (_, client):
        assert bodies(await query(client, "k")) == [b"kept"]
        assert only(await view(client, message_id)).body == b"kept"


async def test_nothing_is_found_where_no_index_is_kept(autojump_clock: MockClock) -> None:
    async with broker_and_client(message_index_enable=False) as (_, client):
        message_id = (await client.send(body=b"x", properties="KEYS\x01k\x02")).ext_fields["msgId"]
        assert (await query(client, "k")).code == ResponseCode.QUERY_NOT_FOUND
        assert only(await view(client, message_id)).body == b"x"


# --- batches ---------------------------------------------------------------------------------------------


async def test_B2_each_message_of_a_batch_is_viewed_found_and_consumed_as_it_was_sent(
    autojump_clock: MockClock,
) -> None:
    async with broker_and_client() as (_, client):
        batch = [Message("T", b"body %d" % n, keys=[f"k{n}"], tags="even" if n % 2 == 0 else "odd") for n in range(5)]
        for number, message in enumerate(batch):
            message.properties["n"] = str(number)
        unique = [f"{number:032X}" for number in range(5)]
        fields = send_fields("T", batch=True)
        sent = await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(batch, unique))
        ids = sent.ext_fields["msgId"].split(",")
        assert len(set(ids)) == len(batch)
        pulled = decode_messages((await client.pull()).body)
        for number, message in enumerate(batch):
            seen = only(await view(client, ids[number]))
            by_key = only(await query(client, f"k{number}"))
            by_id = only(await query(client, unique[number], unique_key_query=True))
            assert told(seen) == told(by_key) == told(by_id) == told(pulled[number])
            assert (seen.body, seen.keys, seen.tags) == (message.body, message.keys, message.tags)
            assert (seen.properties["n"], seen.message_id) == (str(number), unique[number])
            assert seen.queue_offset == number


# --- as Apache answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SCENARIOS)
async def test_answers_have_the_fields_of_apaches(autojump_clock: MockClock, version: str) -> None:
    theirs: dict[tuple[int, int], dict[str, Any]] = {}
    for frame in load(f"{version}/query_messages.jsonl"):
        if frame.is_answer and frame.request_code in (12, 33):
            theirs.setdefault((frame.request_code, frame.record["code"]), frame.record)
    assert set(theirs) >= {(12, 0), (12, 22), (33, 0), (33, 1)}
    async with broker_and_client() as (_, client):
        message_id = (await client.send(properties="KEYS\x01k\x02")).ext_fields["msgId"]
        missing = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "2004318071"})
        ours = {
            (12, 0): await query(client, "k"),
            (12, 22): await query(client, "nope"),
            (33, 0): await view(client, message_id),
            (33, 1): missing,
        }
    for key, answer in ours.items():
        record = theirs[key]
        assert (answer.code, answer.remark) == (record["code"], record["remark"])
        assert set(answer.ext_fields) == set(record["ext_fields"] or ())
        assert bool(answer.body) == bool(record["body_len"])


async def test_a_broker_whose_index_is_far_behind_serves_and_catches_up(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_catch_up, "AT_ONCE", 0)
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        for number in range(250):
            await client.send(body=b"%d" % number, properties=f"KEYS\x01k{number}\x02")
    for name in storage.list("index"):
        storage.unlink(f"index/{name}")
    async with broker_and_client(storage=storage) as (broker, client):
        assert broker.store.index.is_behind
        await client.send(body=b"new", properties="KEYS\x01k250\x02")
        await trio.sleep(1)
        assert not broker.store.index.is_behind
        for number in (0, 100, 249):
            assert bodies(await query(client, f"k{number}")) == [b"%d" % number]
        assert bodies(await query(client, "k250")) == [b"new"]


async def test_a_broker_that_has_gone_idle_has_its_whole_index_on_the_disk(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        for number in range(3):
            await client.send(body=b"x", properties=f"KEYS\x01k{number}\x02")
            await trio.sleep(2)
        await trio.sleep(130)
        (name,) = storage.list("index")
        file = IndexFile(storage, name, IndexShape.of(broker.config.store))
        file.load()
        assert len(list(file.entries())) == 6  # a key and a unique id each
        assert read_checkpoint(storage).indexed == broker.store.written_position
