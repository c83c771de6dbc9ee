"""Subscriptions by SQL92: told by heartbeats, asked by pulls, kept over restarts, and what is refused."""

from __future__ import annotations

import json

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.heartbeat import CheckClientRequestBody
from rocketpy.wire.bodies.subscription import SubscriptionData, build
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.broker.held_requests.waiters import Reason
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.queue.consume_queue_ext import is_address
from tests.broker_sim.broker.kit import SUSPEND, Client, bodies, broker_and_client, client_of, heartbeat
from tests.golden_store import unpacked

ON = {"enable_property_filter": True}
BITS = {"enable_calc_filter_bit_map": True, "enable_consume_queue_ext": True}
NOTHING = (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
FILE = "config/consumerFilter.json"


async def subscribe(
    client: Client, expression: str | None, *, topic: str = "T", group: str = "g", version: int = 1, kind: str = "SQL92"
) -> None:
    """Say by a heartbeat what a group wants; None that it wants the topic no more."""
    data = heartbeat(group)
    wanted = data.consumer_data_set[0].subscription_data_set
    if expression is not None:
        subscription = build(topic, expression, expression_type=kind)
        subscription.sub_version = version
        wanted.append(subscription)
    assert (await client.ask(RequestCode.HEART_BEAT, body=data.encode())).code == 0


async def send(client: Client, body: str, topic: str = "T", **properties: str) -> None:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    assert (await client.send(topic, body.encode(), text)).code == 0


async def check(client: Client, expression: str, kind: str = "SQL92") -> tuple[int, str | None]:
    subscription = SubscriptionData(topic="T", sub_string=expression, expression_type=kind)
    body = CheckClientRequestBody(client_id="c", group="g", subscription_data=subscription)
    answer = await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())
    return answer.code, answer.remark


# --- asking -------------------------------------------------------------------------------------------


async def test_F5_a_pull_gives_what_the_registered_expression_wants(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON) as (_, client):
        for number in range(10):
            await send(client, str(number), a=str(number), color="red" if number % 2 else "blue")
        await subscribe(client, "a > 3 AND color = 'red'")
        answer = await client.pull(sys_flag=0, sub_version=1)
        assert bodies(answer) == [b"5", b"7", b"9"]
        assert answer.ext_fields["nextBeginOffset"] == "10"
        await subscribe(client, "unknown > 3", version=2)
        answer = await client.pull(sys_flag=0, sub_version=2)
        assert (answer.code, answer.remark) == NOTHING
        assert answer.ext_fields["nextBeginOffset"] == "10"


async def test_an_expression_that_is_too_long_is_one_that_is_wrong(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON) as (broker, client):
        await send(client, "1", a="1")
        answers = []
        for version, text in enumerate(("a >", "a > 1 or " * 4000 + "a > 1", "a > 1 or " * 9000)):
            await subscribe(client, text, version=version)
            pull = await client.pull(sys_flag=0, sub_version=version)
            answers.append((pull.code, pull.remark))
            assert broker.clients.consumers.client_ids("g") == ["c1"]
            assert broker.clients.consumers.subscription("g", "T").sub_string == text[:65_536]
        assert answers[0] == answers[1] == answers[2]
        assert answers[0][0] == ResponseCode.FILTER_DATA_NOT_EXIST


async def test_F5_a_pull_may_bring_its_own_expression(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON) as (_, client):
        for number in range(3):
            await send(client, str(number), a=str(number))
        for _ in range(2):  # the second time it is known
            found = await client.pull(subscription="a BETWEEN 1 AND 5", expression_type="SQL92")
            assert bodies(found) == [b"1", b"2"]
        wrong = await client.pull(subscription="a BETWEEN", expression_type="SQL92")
        assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert "at character 10: the expression ends too early" in wrong.remark
        wrong = await client.pull(subscription="a", expression_type="XPATH")
        assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert "XPATH" in wrong.remark


async def test_F5_pulls_that_wait_for_the_same_new_expression_are_all_answered(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON) as (_, client):
        await send(client, "1", a="1")
        found: list[list[bytes]] = []

        async def pull(number: int) -> None:
            found.append(bodies(await client.pull(subscription=f"a = {number % 3}", expression_type="SQL92")))

        async with trio.open_nursery() as nursery:
            for number in range(9):
                nursery.start_soon(pull, number)
        assert sorted(map(len, found)) == [0, 0, 0, 0, 0, 0, 1, 1, 1]


async def test_PL2_without_an_expression_and_with_an_old_one(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON) as (_, client):
        await send(client, "1", a="1")
        await subscribe(client, "a >")
        missing = await client.pull(sys_flag=0, sub_version=1)
        assert missing.code == ResponseCode.FILTER_DATA_NOT_EXIST
        await subscribe(client, "a > 0", version=2)
        assert (await client.pull(sys_flag=0, sub_version=2)).code == 0
        assert (await client.pull(sys_flag=0, sub_version=3)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_PL2_a_filter_that_is_older_than_the_subscription_is_told(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON) as (broker, client):
        await send(client, "1", a="1")
        await subscribe(client, "a > 0")
        broker.filters.table.get("T", "g").client_version = 0
        assert (await client.pull(sys_flag=0, sub_version=1)).code == ResponseCode.FILTER_DATA_NOT_LATEST


async def test_F4_a_change_to_an_expression_that_is_none_forgets_the_old_one(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON) as (broker, client):
        await send(client, "1", a="1")
        await subscribe(client, "a > 0")
        await subscribe(client, "a >", version=1)  # not newer: it is not looked at
        assert broker.filters.table.get("T", "g").compiled.text == "a > 0"
        await subscribe(client, "a >", version=2)
        assert broker.filters.table.get("T", "g") is None
        answer = await client.pull(sys_flag=0, sub_version=2)
        assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST


async def test_without_the_setting_expressions_are_refused(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await send(client, "1", a="1")
        await subscribe(client, "a > 0")
        for answer in (
            await client.pull(sys_flag=0, sub_version=1),
            await client.pull(subscription="a > 0", expression_type="SQL92"),
        ):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "enablePropertyFilter=true" in answer.remark
        code, remark = await check(client, "a > 0")
        assert code == ResponseCode.SYSTEM_ERROR
        assert "enablePropertyFilter=true" in remark


async def test_a_client_hears_what_is_wrong_with_its_expression(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON) as (_, client):
        assert await check(client, "a > 0") == (0, None)
        for _ in range(2):
            code, remark = await check(client, "a > '0'")
            assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
            assert "at character 5: only numbers can be ordered" in remark
        assert (await check(client, ""))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert (await check(client, "a", "XPATH"))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert (await check(client, "a" * 17_000))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED


# --- waiting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [{}, BITS], ids=["plain", "bit maps"])
async def test_F5_a_held_pull_wakes_for_what_it_wants_and_for_nothing_else(
    autojump_clock: MockClock, bits: dict[str, bool]
) -> None:
    network = MemoryNetwork()
    async with (
        broker_and_client(network, **ON, **bits) as (broker, client),
        client_of(network, broker.address) as other,
    ):
        await send(client, "0", a="0")
        await subscribe(client, "a > 3")
        await trio.sleep(1)  # from now on messages are judged by their bits, where they have them
        found: list[bytes] = []

        async def pull() -> None:
            found.extend(bodies(await client.pull(offset=1, sys_flag=SUSPEND, sub_version=1)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await wait_all_tasks_blocked()
            for number in range(3):
                await send(other, str(number), a=str(number))
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 1
            await send(other, "5", a="5")
        assert found == [b"5"]
        assert broker.pulls.waiters.counts[Reason.ARRIVED] == 1
        queue = broker.store._queues.find(("T", 0))
        assert [is_address(unit[2]) for unit in queue.units(0, 5)] == [False] + [bool(bits)] * 4


async def test_F6_topics_that_nobody_filters_have_ordinary_units(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON, **BITS) as (broker, client):
        for topic in ("T", "U"):
            await send(client, "0", topic, a="0")
        await subscribe(client, "a >= 0")
        await subscribe(client, "a || b", topic="U", group="h", kind="TAG")
        for topic in ("T", "U"):
            await send(client, "1", topic, a="1")
        kinds = {
            topic: [is_address(unit[2]) for unit in broker.store._queues.find((topic, 0)).units(0, 2)]
            for topic in ("T", "U")
        }
        assert kinds == {"T": [False, True], "U": [False, False]}
        assert bodies(await client.pull(sys_flag=0, sub_version=1)) == [b"0", b"1"]


# --- retry topics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [{}, BITS], ids=["plain", "bit maps"])
@pytest.mark.parametrize(("supported", "wanted"), [(False, [b"2"]), (True, [b"1", b"3"])])
async def test_F5_a_retry_topic_is_filtered_by_the_original_topic(
    autojump_clock: MockClock, supported: bool, wanted: list[bytes], bits: dict[str, bool]
) -> None:
    async with broker_and_client(**ON, **bits, filter_support_retry=supported) as (_, client):
        data = heartbeat("g")
        for topic, expression in (("T", "a = 1"), ("%RETRY%g", "a = 2")):
            subscription = build(topic, expression, expression_type="SQL92")
            subscription.sub_version = 1
            data.consumer_data_set[0].subscription_data_set.append(subscription)
        assert (await client.ask(RequestCode.HEART_BEAT, body=data.encode())).code == 0
        await trio.sleep(1)
        await send(client, "1", "%RETRY%g", a="1", RETRY_TOPIC="T")
        await send(client, "2", "%RETRY%g", a="2", RETRY_TOPIC="T")
        await send(client, "3", "%RETRY%g", a="1", RETRY_TOPIC="T")
        found = await client.pull("%RETRY%g", sys_flag=0, sub_version=1)
        assert bodies(found) == wanted


@pytest.mark.parametrize(
    ("supported", "of_the_topic", "wanted"),
    [
        (False, "a = 2", [b"1", b"3"]),
        (True, "a = 2", [b"2"]),
        (True, None, [b"1", b"2", b"3"]),
    ],
)
@pytest.mark.parametrize("asking", ["g", "h"])
async def test_F5_a_pull_that_brings_its_expression_is_filtered_by_the_original_topic_too(
    autojump_clock: MockClock, supported: bool, of_the_topic: str | None, wanted: list[bytes], asking: str
) -> None:
    async with broker_and_client(**ON, filter_support_retry=supported) as (_, client):
        await subscribe(client, of_the_topic)
        for number in "123":
            await send(client, number, "%RETRY%g", a="2" if number == "2" else "1", RETRY_TOPIC="T")
        found = await client.pull("%RETRY%g", consumer_group=asking, subscription="a = 1", expression_type="SQL92")
        assert bodies(found) == wanted


# --- what is kept -------------------------------------------------------------------------------------


async def test_filters_die_with_their_group_and_are_forgotten_after_their_time(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, **ON, filter_data_clean_time_span=60_000) as (broker, client):
        await subscribe(client, "a > 3")
        table = broker.filters.table
        assert not table.get("T", "g").is_dead
        await subscribe(client, None)
        assert table.get("T", "g").is_dead
        await subscribe(client, "a > 3")  # the same version: alive again
        assert not table.get("T", "g").is_dead
        fields = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
        assert (await client.ask(RequestCode.UNREGISTER_CLIENT, fields)).code == 0
        assert table.get("T", "g").is_dead
        for name in ("born_time", "dead_time"):
            setattr(table.get("T", "g"), name, getattr(table.get("T", "g"), name) - 60_001)
        await trio.sleep(11)
        assert len(table) == 0


async def test_filters_survive_a_restart_in_apaches_form(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, **ON) as (broker, client):
        await subscribe(client, "a > 3 AND color = 'red'", topic="GS_SQL", group="CG_SQL0", version=7)
        born = broker.filters.table.get("GS_SQL", "CG_SQL0").born_time
    kept = json.loads(storage.read_bytes(FILE))["filterDataByTopic"]["GS_SQL"]
    assert kept["topic"] == "GS_SQL"
    data = kept["groupFilterData"]["CG_SQL0"]
    dead_time = data.pop("deadTime")
    assert dead_time >= born
    assert data == {
        "bloomFilterData": {"bitNum": 112, "bitPos": [110, 87, 64]},
        "bornTime": born,
        "clientVersion": 7,
        "consumerGroup": "CG_SQL0",
        "dead": True,
        "expression": "a > 3 AND color = 'red'",
        "expressionType": "SQL92",
        "topic": "GS_SQL",
    }
    async with broker_and_client(storage=storage, **ON) as (broker, client):
        again = broker.filters.table.get("GS_SQL", "CG_SQL0")
        assert (again.born_time, again.dead_time, again.compiled.text) == (born, dead_time, "a > 3 AND color = 'red'")
        await subscribe(client, "a > 3 AND color = 'red'", topic="GS_SQL", group="CG_SQL0", version=7)
        assert not again.is_dead
    async with broker_and_client(storage=storage, **ON, expect_consumer_num_use_filter=64) as (broker, _):
        assert len(broker.filters.table) == 0  # other bits stand for groups now


async def test_apaches_file_is_read_and_written_as_it_was(autojump_clock: MockClock) -> None:
    text = (unpacked("5.3.3-sqlfilter") / FILE).read_bytes()
    storage = MemoryStorage()
    storage.make_dir("config")
    storage.write_bytes_atomic(FILE, text)
    async with broker_and_client(storage=storage, **ON) as (broker, _):
        assert broker.filters.table.encode() == text
        assert set(broker.filters.table.of_topic("GS_SQL")) == {"CG_SQL0", "CG_SQL1", "CG_SQL2"}


async def test_threat_M13_a_file_of_filters_that_is_none_of_ours_is_not_believed(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    storage.make_dir("config")
    data = {"consumerGroup": "g", "topic": "T", "expression": "a >", "expressionType": "SQL92", "bornTime": 1}
    bloom = {"bitNum": 112, "bitPos": [1, 2, 3]}
    for body in (
        {**data, "bloomFilterData": bloom},
        {**data, "bloomFilterData": {**bloom, "bitPos": [1, 2, 1 << 30]}, "expression": "a > 1"},
        {**data, "bloomFilterData": None},
        {},
    ):
        document = {"filterDataByTopic": {"T": {"groupFilterData": {"g": body}, "topic": "T"}}}
        storage.write_bytes_atomic(FILE, json.dumps(document).encode())
        async with broker_and_client(storage=storage, **ON) as (broker, _):
            assert len(broker.filters.table) == 0


# --- bit maps -----------------------------------------------------------------------------------------


async def test_F6_bit_maps_say_who_wants_a_message_and_exclude_the_others(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON, **BITS) as (broker, client):
        await subscribe(client, "a > 3", group="g")
        await subscribe(client, "a <= 3", group="h")
        await trio.sleep(1)  # a message of the very moment of birth is not judged by its bits
        for number in range(6):
            await send(client, str(number), a=str(number))
        queue = broker.store._queues.find(("T", 0))
        maps = [queue.ext.get(queue.unit(offset)[2]).bit_map for offset in range(6)]
        table = broker.filters.table
        masks = {group: table.get("T", group).mask for group in ("g", "h")}
        assert [int.from_bytes(each, "little") for each in maps] == [masks["h"]] * 4 + [masks["g"]] * 2
        asked: list[bytes] = []
        data = table.get("T", "g")
        before = data.compiled

        class Watched:
            text, cost, size, cost_of_byte = before.text, before.cost, before.size, before.cost_of_byte

            @staticmethod
            def matches(properties: bytes) -> bool:
                asked.append(properties)
                return before.matches(properties)

        data.compiled = Watched
        assert bodies(await client.pull(sys_flag=0, sub_version=1)) == [b"4", b"5"]
        assert len(asked) == 2  # four messages were never looked at


async def test_F6_bits_say_nothing_of_messages_from_before_the_subscription_changed(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON, **BITS) as (_, client):
        await subscribe(client, "a > 3")
        await trio.sleep(1)
        await send(client, "1", a="1")
        await send(client, "5", a="5")
        await subscribe(client, "a < 3", version=2)
        assert bodies(await client.pull(sys_flag=0, sub_version=2)) == [b"1"]
        await subscribe(client, "a > 3", version=3)
        assert bodies(await client.pull(sys_flag=0, sub_version=3)) == [b"5"]


async def test_F6_too_many_messages_and_too_heavy_filters_do_without_bits(autojump_clock: MockClock) -> None:
    heavy = " OR ".join(f"a = {number}" for number in range(120))
    async with broker_and_client(**ON, **BITS) as (broker, client):
        for number in range(4):
            await subscribe(client, f"{heavy} OR a = {500 + number}", group=f"g{number}")
        await subscribe(client, "a = 7", group="light")
        await trio.sleep(1)
        await send(client, "5", a="500")
        queue = broker.store._queues.find(("T", 0))
        bits = int.from_bytes(queue.ext.get(queue.unit(0)[2]).bit_map, "little")
        table = broker.filters.table
        set_for = [group for group, data in table.of_topic("T").items() if bits & data.mask == data.mask]
        assert set_for == ["g0", "g1", "g2", "g3"]  # one was asked, for the others there was no time
        found = await client.pull(sys_flag=0, sub_version=1, consumer_group="g1")
        assert (found.code, found.remark) == NOTHING
        mapper = broker.store._dispatcher.bit_maps
        mapper.begin()
        found = mapper.of("T", [b"a\x017\x02"] * 200)
        assert found[0]
        assert not found[-1]


async def test_F6_after_a_crash_no_bit_map_is_believed(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, **ON, **BITS) as (broker, client):
        await subscribe(client, "a > 3")
        await trio.sleep(1)
        await send(client, "1", a="1")
        born = broker.filters.table.get("T", "g").born_time
        await trio.sleep(6)
        broker.kill()
    async with broker_and_client(storage=storage, **ON, **BITS) as (broker, client):
        data = broker.filters.table.get("T", "g")
        assert data.born_time > born
        assert data.is_dead
        await subscribe(client, "a > 3")
        assert (await client.pull(sys_flag=0, sub_version=1)).remark == "NO_MATCHED_MESSAGE"


async def test_F6_messages_from_before_the_switch_are_still_found(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    for settings in ({}, BITS, {}, BITS):
        async with broker_and_client(storage=storage, **ON, **settings) as (_, client):
            await subscribe(client, "a > 3")
            await trio.sleep(1)
            await send(client, "1", a="1")
            await send(client, "5", a="5")
    async with broker_and_client(storage=storage, **ON, **BITS) as (_, client):
        await subscribe(client, "a > 3")
        assert bodies(await client.pull(sys_flag=0, sub_version=1)) == [b"5"] * 4


async def test_a_broker_that_stops_answers_those_who_wait_for_an_expression(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, **ON) as (broker, client):
        await send(client, "1", a="1")
        answers: list[list[bytes]] = []

        async def pull(number: int) -> None:
            found = await client.pull(subscription=f"a < {number + 2}", expression_type="SQL92")
            answers.append(bodies(found))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(pull, number)
            await broker.filters.settle()
        assert answers == [[b"1"]] * 20


async def test_what_filters_take_counts_and_has_bounds(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ON, max_kept_bytes=400_000) as (broker, client):
        taken = broker.memory.tables
        await subscribe(client, "a > 3")
        assert broker.memory.tables - taken > 1600
        long = " OR ".join(f"a = '{'x' * 110}{number}'" for number in range(100))
        await subscribe(client, long, group="h")
        assert broker.filters.table.get("T", "h") is None
        await send(client, "1", a="1")
        missing = await client.pull(sys_flag=0, sub_version=1, consumer_group="h")
        assert missing.code == ResponseCode.FILTER_DATA_NOT_EXIST
