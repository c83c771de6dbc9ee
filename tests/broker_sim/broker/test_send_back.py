"""Messages that consumers give back: again after a while, each time later, at last among the dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import BrokerError
from rocketpy.message import MessageExt
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.compression import compress
from rocketpy.wire.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, Client, bodies, broker_and_client, client_of, settings
from tests.virtual_time import loop_time

EPOCH = 1_800_000_000_000
RETRY, DEAD = "%RETRY%g", "%DLQ%g"


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(EPOCH)):
        yield


async def give_back(client: Client, message: MessageExt | int, level: int = 0, **fields: Any) -> RemotingCommand:
    offset = message if isinstance(message, int) else message.commit_log_offset
    values: dict[str, Any] = {"group": "g", "origin_topic": "T", "origin_msg_id": "M", **fields}
    version = values.pop("version", 479)
    header = ConsumerSendMsgBackRequestHeader(offset=offset, delay_level=level, **values)
    return await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_ext(), version=version)


def messages(broker: Broker, topic: str) -> list[MessageExt]:
    return decode_messages(broker.store.reads.get(topic, 0, 0, 32).records)


async def first(broker: Broker, client: Client, **fields: Any) -> MessageExt:
    await client.heartbeat("g", "T")
    await client.send("T", **fields)
    return messages(broker, "T")[0]


# --- again -----------------------------------------------------------------------------------------------


async def test_K3_RT1_a_message_comes_again_from_the_retry_topic(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        original = await first(
            broker, client, body=b"body", properties="TAGS\x01a\x02KEYS\x01k\x02UNIQ_KEY\x01U\x02", flag=3
        )
        assert (await give_back(client, original)).code == 0
        await trio.sleep(9.5)
        assert messages(broker, RETRY) == []
        await trio.sleep(1)
        (again,) = messages(broker, RETRY)
        assert again.body == b"body"
        assert (again.flag, again.sys_flag, again.reconsume_times) == (3, original.sys_flag, 1)
        assert (again.born_timestamp, again.born_host) == (original.born_timestamp, original.born_host)
        properties = again.wire_properties
        assert (properties["TAGS"], properties["KEYS"], properties["UNIQ_KEY"]) == ("a", "k", "U")
        assert properties["RETRY_TOPIC"] == "T"
        assert properties["ORIGIN_MESSAGE_ID"] == original.offset_message_id
        assert (properties["DELAY"], properties["WAIT"]) == ("3", "false")
        assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == (RETRY, "0")
        assert broker.store.reads.get(RETRY, 0, 0, 1, match=lambda code: code == tags_code("a")).count == 1


async def test_RT1_each_time_it_comes_later_and_keeps_its_origin(autojump_clock: MockClock) -> None:
    delays = [10, 30, 60]
    async with broker_and_client() as (broker, client):
        message = original = await first(broker, client)
        for count, delay in enumerate(delays, start=1):
            await client.heartbeat("g", "T")  # or the broker takes it for dead
            await give_back(client, message)
            await trio.sleep(delay - 0.5)
            assert len(messages(broker, RETRY)) == count - 1
            await trio.sleep(1)
            message = messages(broker, RETRY)[-1]
            assert message.reconsume_times == count
            assert message.wire_properties["RETRY_TOPIC"] == "T"
            assert message.wire_properties["ORIGIN_MESSAGE_ID"] == original.offset_message_id


@pytest.mark.slow
@pytest.mark.parametrize(("level", "delay"), [(1, 1), (5, 60), (18, 7200), (99, 7200)])
async def test_RT1_a_consumer_may_say_how_much_later(autojump_clock: MockClock, level: int, delay: int) -> None:
    async with broker_and_client() as (broker, client):
        await give_back(client, await first(broker, client), level)
        await trio.sleep(delay - 0.5)
        assert messages(broker, RETRY) == []
        await trio.sleep(1)
        assert len(messages(broker, RETRY)) == 1


class Witness:
    """A hook that takes notes, and refuses one group."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def before_request(self, address: str, command: RemotingCommand) -> None:
        if command.ext_fields.get("group") == "unwanted":
            raise BrokerError.for_code(ResponseCode.NO_PERMISSION, "not this group")

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        if answer is not None:
            self.seen.append((command.code, answer.code))


async def test_K3_hooks_see_it_and_may_refuse_it(autojump_clock: MockClock) -> None:
    witness, network = Witness(), MemoryNetwork()
    opened = open_broker(settings(), network=network, storage=MemoryStorage(), hooks=[witness])
    async with opened as broker, client_of(network, broker.address) as client:
        message = await first(broker, client)
        assert (await give_back(client, message)).code == 0
        refused = await give_back(client, message, group="unwanted")
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "not this group")
        assert (await give_back(client, -1)).code == ResponseCode.SYSTEM_ERROR
    code = int(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert [each for each in witness.seen if each[0] == code] == [(code, 0)]


async def test_K3_a_compressed_body_stays_compressed(autojump_clock: MockClock) -> None:
    body = b"body" * 1000
    packed = compress(body)
    async with broker_and_client() as (broker, client):
        original = await first(broker, client, body=packed, sys_flag=0x301)
        await give_back(client, original, 1)
        await trio.sleep(2)
        (again,) = messages(broker, RETRY)
        assert again.body == body
        assert again.sys_flag == original.sys_flag
        assert again.store_size < len(body)


async def test_RT1_a_restart_in_between_loses_nothing(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await give_back(client, await first(broker, client, body=b"kept"))
    async with broker_and_client(storage=storage) as (broker, _):
        await trio.sleep(11)
        assert [message.body for message in messages(broker, RETRY)] == [b"kept"]


# --- for the last time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 1, 2])
async def test_RT3_past_the_limit_one_copy_goes_to_the_dead_letters(autojump_clock: MockClock, most: int) -> None:
    async with broker_and_client() as (broker, client):
        message = original = await first(broker, client, body=b"dead", properties="TAGS\x01a\x02")
        for _ in range(most):
            await give_back(client, message, 1, max_reconsume_times=most)
            await trio.sleep(2)
            message = messages(broker, RETRY)[-1]
        assert (await give_back(client, message, 1, max_reconsume_times=most)).code == 0
        await trio.sleep(100)
        assert len(messages(broker, RETRY)) == most
        (dead,) = messages(broker, DEAD)
        assert (dead.body, dead.reconsume_times) == (b"dead", most + 1)
        assert dead.wire_properties["RETRY_TOPIC"] == "T"
        assert dead.wire_properties["ORIGIN_MESSAGE_ID"] == original.offset_message_id
        assert (dead.wire_properties["DELAY"], dead.wire_properties["TAGS"]) == ("0", "a")
        topic = broker.topics.get(DEAD)
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


async def test_RT3_a_negative_level_means_the_dead_letters_at_once(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await give_back(client, await first(broker, client), -1)
        assert len(messages(broker, DEAD)) == 1


async def test_RT3_the_group_decides_where_the_consumer_says_nothing(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        broker.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=0))
        message = await first(broker, client)
        await give_back(client, message, 1, max_reconsume_times=5)
        assert messages(broker, DEAD) == []
        await give_back(client, message, 1)
        assert len(messages(broker, DEAD)) == 1
        await give_back(client, message, 1, max_reconsume_times=5, version=120)
        assert len(messages(broker, DEAD)) == 2, "clients before 3.4.9 are not asked"


# --- refused ---------------------------------------------------------------------------------------------


async def test_K3_an_unknown_group_is_made_or_refused(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        assert (await give_back(client, 0)).code == 0
        assert {RETRY} <= set(broker.topics.all())
    async with broker_and_client(auto_create_subscription_group=False) as (broker, client):
        await client.send()
        assert (await give_back(client, 0)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert RETRY not in broker.topics


async def test_K3_a_group_without_retry_queues_wants_nothing_again(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        broker.groups.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=0))
        await client.send()
        end = broker.store.written_position
        assert (await give_back(client, 0)).code == 0
        assert broker.store.written_position == end


async def test_K3_permissions_hold(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        message = await first(broker, client)
        broker.config.broker_permission = 4
        assert (await give_back(client, message)).code == ResponseCode.NO_PERMISSION
        broker.config.broker_permission = 6
        broker.topics.delete(RETRY)
        broker.topics.create_retry(RETRY, 1, 4)
        assert (await give_back(client, message)).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("offset", [-1, 1, 17, 10**9, 2**62])
async def test_threat_M1_a_position_where_no_message_begins_is_refused(autojump_clock: MockClock, offset: int) -> None:
    async with broker_and_client() as (broker, client):
        await first(broker, client)
        end = broker.store.written_position
        answer = await give_back(client, offset)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
        assert broker.store.written_position == end


async def test_threat_M3_a_damaged_message_is_not_given_to_anybody(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        message = await first(broker, client, body=b"good-good-good")
        log = storage.open("commitlog/00000000000000000000")
        log.pwrite(b"X", log.pread(2000, 0).index(b"good-good-good"))
        assert (await give_back(client, message)).code == ResponseCode.SYSTEM_ERROR
        assert (await give_back(client, message, -1)).code == ResponseCode.SYSTEM_ERROR
        await trio.sleep(15)
        assert (messages(broker, RETRY), messages(broker, DEAD)) == ([], [])


async def test_K3_a_full_disk_is_told_and_the_consumer_keeps_the_message(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        message = await first(broker, client)
        end = broker.store.written_position
        with storage.failing("pwrite", under="commitlog"):
            answer = await give_back(client, message)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert broker.store.written_position == end
        assert (await give_back(client, message)).code == 0, "the disk is well again"
        await trio.sleep(15)
        assert [again.body for again in messages(broker, RETRY)] == [message.body]


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_DL1_RT1_delays_work_however_the_log_is_flushed(autojump_clock: MockClock, flush: str) -> None:
    async with broker_and_client(flush_disk_type=flush) as (broker, client):
        original = await first(broker, client, body=b"back")
        assert (await give_back(client, original, 1)).code == 0
        assert (await client.send("T", b"late", "DELAY\x012\x02")).code == 0
        await trio.sleep(1.5)
        assert [message.body for message in messages(broker, RETRY)] == [b"back"]
        assert [message.body for message in messages(broker, "T")] == [b"back"]
        await trio.sleep(4)
        assert [message.body for message in messages(broker, "T")] == [b"back", b"late"]


async def test_DL1_a_consumer_that_waits_gets_a_delayed_message_when_it_is_due(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await first(broker, client)
        await client.send("T", b"late", "DELAY\x012\x02")
        start = trio.current_time()
        answer = await client.pull("T", 0, 1, sys_flag=SUSPEND | SUBSCRIPTION)
        assert bodies(answer) == [b"late"]
        assert trio.current_time() - start == pytest.approx(5, abs=0.1)


# --- a topic with fewer queues ---------------------------------------------------------------------------


async def test_RT1_it_goes_to_a_queue_that_the_retry_topic_has(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        original = await first(broker, client)  # the heartbeat has created the retry topic, with one queue
        broker.groups.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=100))
        for _ in range(10):
            assert (await give_back(client, original, 1)).code == 0
        await trio.sleep(2)
        assert [message.wire_properties["REAL_QID"] for message in messages(broker, RETRY)] == ["0"] * 10
