"""Pulls: what is found, what is refused and why, and pulls that wait."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.enums import MessageModel
from rocketpy.wire.headers.pull import PullMessageResponseHeader
from rocketpy_broker_sim.broker.held_requests.waiters import Reason
from tests.broker_sim.broker.kit import (
    COMMIT,
    SUBSCRIPTION,
    SUSPEND,
    Client,
    bodies,
    broker_and_client,
    client_of,
    pull_fields,
)

WAIT = SUBSCRIPTION | SUSPEND


async def test_PL1_what_is_found_comes_with_next_min_and_max(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for n in range(5):
            await client.send(body=str(n).encode())
        answer = await client.pull(offset=1, max_msg_nums=3)
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
        header = PullMessageResponseHeader.from_ext(answer.ext_fields)
        assert (header.next_begin_offset, header.min_offset, header.max_offset) == (4, 0, 5)
        assert (header.suggest_which_broker_id, header.topic_sys_flag, header.group_sys_flag) == (0, 0, 0)
        assert bodies(answer) == [b"1", b"2", b"3"]


async def test_PL1_messages_of_other_tags_are_passed_over(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for tag in "abab":
            await client.send(body=tag.encode(), properties=f"TAGS\x01{tag}\x02")
        assert bodies(await client.pull(subscription="a")) == [b"a", b"a"]
        assert bodies(await client.pull(subscription="b || c")) == [b"b", b"b"]
        answer = await client.pull(subscription="z")
        assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        assert answer.ext_fields["nextBeginOffset"] == "4"


async def test_PL2_a_missing_topic_an_unknown_subscription_and_an_old_one(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        assert (await client.pull("none")).code == ResponseCode.TOPIC_NOT_EXIST
        await client.send()
        assert (await client.pull(sys_flag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await client.heartbeat("g", "Other")
        assert (await client.pull(sys_flag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await client.heartbeat("g", "T")
        assert (await client.pull(sys_flag=0)).code == ResponseCode.SUCCESS
        assert (await client.pull(sys_flag=0, sub_version=2**60)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_PL3_offsets_outside_the_queue_are_moved(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for _ in range(3):
            await client.send()
        badly = await client.pull(offset=9)
        assert (badly.code, badly.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY")
        assert badly.ext_fields["nextBeginOffset"] == "3"
        below = await client.pull(offset=-1)
        assert (below.code, below.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL")
        assert below.ext_fields["nextBeginOffset"] == "0"
        end = await client.pull(offset=3)
        assert (end.code, end.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "3")
        empty = await client.pull(queue=1, offset=0)
        assert (empty.code, empty.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "0")
        moved = await client.pull(queue=1, offset=7)
        assert (moved.code, moved.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")


@pytest.mark.parametrize("count", [0, -1, 2**31 - 1])
async def test_threat_F13_counts_are_clamped(autojump_clock: MockClock, count: int) -> None:
    async with broker_and_client() as (_, client):
        for _ in range(40):
            await client.send()
        assert 1 <= len(bodies(await client.pull(max_msg_nums=count))) <= 32


@pytest.mark.parametrize("queue", [-1, 4, 2**31 - 1])
async def test_threat_F13_a_queue_that_is_not_there_is_refused(autojump_clock: MockClock, queue: int) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        assert (await client.pull(queue=queue)).code == ResponseCode.INVALID_PARAMETER


async def test_each_refusal_says_who_forbids(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        await client.heartbeat("g", "T", model=MessageModel.BROADCASTING)

        async def refused(**fields: object) -> tuple[int, str | None]:
            answer = await client.pull(**fields)
            return answer.code, answer.ext_fields.get("forbiddenType")

        broker.config.broker_permission = 2
        assert await refused() == (ResponseCode.NO_PERMISSION, "1")
        broker.config.broker_permission = 6
        group = broker.groups.find("g")
        group.consume_enable = False
        assert await refused() == (ResponseCode.NO_PERMISSION, "2")
        group.consume_enable = True
        broker.topics.get("T").perm = 2
        assert await refused() == (ResponseCode.NO_PERMISSION, "3")
        broker.topics.get("T").perm = 6
        group.consume_broadcast_enable = False
        assert await refused(sys_flag=0) == (ResponseCode.NO_PERMISSION, "4")
        group.consume_broadcast_enable = True
        broker.groups.set_readable("g", "T", readable=False)
        assert await refused(sys_flag=0) == (ResponseCode.NO_PERMISSION, "5")


async def test_an_unknown_group_is_made_or_refused(autojump_clock: MockClock) -> None:
    async with broker_and_client(auto_create_subscription_group=False) as (_, client):
        await client.send()
        assert (await client.pull()).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (await client.pull(consumer_group="TOOLS_CONSUMER")).code == ResponseCode.SUCCESS


async def test_lite_pull_has_its_own_switch(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        fields = pull_fields("T", 0, 0)
        assert (await client.ask(RequestCode.LITE_PULL_MESSAGE, fields)).code == ResponseCode.SUCCESS
        broker.config.lite_pull_message_enable = False
        assert (await client.ask(RequestCode.LITE_PULL_MESSAGE, fields)).code == ResponseCode.NO_PERMISSION
        assert (await client.pull()).code == ResponseCode.SUCCESS


async def test_expressions_that_are_not_understood(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        assert (await client.pull(subscription="||")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert (await client.pull(subscription="a" * 33_000)).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        sql = await client.pull(subscription="a = 1", expression_type="SQL92")
        assert sql.code == ResponseCode.SYSTEM_ERROR
        assert "SQL92" in sql.remark


async def test_PL5_a_pull_may_carry_a_commit_and_a_held_one_commits_once(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        await client.pull(sys_flag=SUBSCRIPTION | COMMIT, commit_offset=1)
        assert broker.offsets.query("g", "T", 0) == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.pull(offset=1, sys_flag=WAIT | COMMIT, commit_offset=1))
            await wait_all_tasks_blocked()
            broker.offsets.commit("g", "T", 0, 5)
            await client.send()
        assert broker.offsets.query("g", "T", 0) == 5


# --- pulls that wait -----------------------------------------------------------------------------------


async def test_PL4_a_held_pull_wakes_when_a_message_arrives(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send(body=b"old")
        answers = []

        async def pull() -> None:
            answers.append(await client.pull(offset=1, sys_flag=WAIT))

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 1
            await client.send(body=b"new")
        assert bodies(answers[0]) == [b"new"]
        assert trio.current_time() - began < 0.01
        assert len(broker.pulls.waiters) == 0


async def test_PL4_only_messages_of_its_tags_wake_it(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send(properties="TAGS\x01a\x02")
        answers = []

        async def pull() -> None:
            answers.append(await client.pull(offset=1, sys_flag=WAIT, subscription="b"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await wait_all_tasks_blocked()
            await client.send(properties="TAGS\x01a\x02")
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 1
            await client.send(body=b"mine", properties="TAGS\x01b\x02")
        assert bodies(answers[0]) == [b"mine"]


@pytest.mark.parametrize(("asked", "held"), [(15_000, 15.0), (10**12, 30.0), (-5, 0.0), (0, 0.0)])
async def test_PL4_its_time_ends_and_no_time_is_longer_than_the_bound(
    autojump_clock: MockClock, asked: int, held: float
) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        began = trio.current_time()
        answer = await client.pull(offset=1, sys_flag=WAIT, suspend_timeout_millis=asked)
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert held <= trio.current_time() - began <= held + 0.1
        assert len(broker.pulls.waiters) == 0


async def test_PL4_short_polling_holds_for_a_moment_only(autojump_clock: MockClock) -> None:
    async with broker_and_client(long_polling_enable=False, short_polling_time_mills=1000) as (_, client):
        await client.send()
        began = trio.current_time()
        assert (await client.pull(offset=1, sys_flag=WAIT)).code == ResponseCode.PULL_NOT_FOUND
        assert 1.0 <= trio.current_time() - began <= 1.1


async def test_PL4_it_is_answered_once_whatever_comes_at_the_same_time(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        async with trio.open_nursery() as nursery:
            for group in ("g1", "g2", "g3"):
                nursery.start_soon(lambda group=group: client.pull(offset=1, sys_flag=WAIT, consumer_group=group))
            await trio.sleep(14.99)
            await client.send()
        await trio.sleep(60)
        assert client.connection.statistics().unknown_answers == 0
        assert client.connection.statistics().in_flight == 0


async def test_a_newer_pull_of_the_same_client_for_the_queue_releases_the_older(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        began = trio.current_time()
        times = []

        async def pull() -> None:
            answer = await client.pull(offset=1, sys_flag=WAIT | COMMIT, commit_offset=1)
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            times.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(pull)
                await wait_all_tasks_blocked()
                assert len(broker.pulls.waiters) == 1
        assert times[0] < 1
        assert times[1] >= 15


async def test_no_more_pulls_are_held_than_the_bound(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_held_pulls=1) as (broker, client):
        await client.send()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.pull(offset=1, sys_flag=WAIT))
            await wait_all_tasks_blocked()
            began = trio.current_time()
            answer = await client.pull(offset=1, sys_flag=WAIT, consumer_group="other")
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            assert trio.current_time() == began
            assert len(broker.pulls.waiters) == 1


async def test_a_connection_that_closes_takes_its_pulls_along(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, client):
        await client.send()
        async with client_of(network, broker.address) as other:
            other.connection.send_frame(_pull_frame(other.connection.next_opaque()))
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 1
        await wait_all_tasks_blocked()
        assert len(broker.pulls.waiters) == 0
        assert (await client.send()).code == 0


def _pull_frame(opaque: int) -> bytes:
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.serialize import encode_command

    command = RemotingCommand(RequestCode.PULL_MESSAGE, pull_fields("T", 0, 1, sys_flag=WAIT))
    return encode_command(attrs.evolve(command, opaque=opaque))


async def test_many_groups_on_one_queue_all_get_the_message(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        got = []

        async def pull(group: str) -> None:
            got.append(bodies(await client.pull(offset=1, sys_flag=WAIT, consumer_group=group)))

        async with trio.open_nursery() as nursery:
            for n in range(500):
                nursery.start_soon(pull, f"g{n}")
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 500
            await client.send(body=b"all")
        assert got == [[b"all"]] * 500


@pytest.mark.slow
async def test_a_client_that_holds_pulls_on_many_queues_is_read_on(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        async with trio.open_nursery() as nursery:
            for n in range(2000):
                nursery.start_soon(lambda n=n: client.pull(offset=1, sys_flag=WAIT, consumer_group=f"g{n}"))
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 2000
            began = trio.current_time()
            assert (await client.heartbeat("g", "T")).code == 0
            assert trio.current_time() == began
        assert client.connection.statistics().in_flight == 0
        (server_side,) = broker.server.connections
        assert server_side.statistics().parked == 0


@pytest.mark.parametrize("change", ["delete", "fewer queues", "not readable"])
async def test_held_pulls_of_a_queue_that_goes_are_answered(autojump_clock: MockClock, change: str) -> None:
    async with broker_and_client() as (broker, client):
        await client.send(queue_id=3)
        codes = []

        async def pull() -> None:
            codes.append((await client.pull(queue=3, offset=1, sys_flag=WAIT)).code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 1
            began = trio.current_time()
            if change == "delete":
                answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            else:
                queues, perm = ("2", "6") if change == "fewer queues" else ("4", "2")
                fields = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
                fields |= {"perm": perm, "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
                answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
            assert answer.code == 0
        assert trio.current_time() - began < 1
        expected = {
            "delete": ResponseCode.TOPIC_NOT_EXIST,
            "fewer queues": ResponseCode.INVALID_PARAMETER,
            "not readable": ResponseCode.NO_PERMISSION,
        }
        assert codes == [expected[change]]
        assert broker.runtime_info()["heldPullsEnded_queueGone"] == "1"


async def test_one_connection_cannot_turn_long_polling_off_for_the_others(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, max_held_pulls=50, max_held_pulls_per_connection=50) as (broker, greedy):
        await greedy.send()
        async with client_of(network, broker.address) as modest, trio.open_nursery() as nursery:
            for n in range(60):
                nursery.start_soon(lambda n=n: greedy.pull(offset=1, sys_flag=WAIT, consumer_group=f"g{n}"))
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 50
            began = trio.current_time()
            assert (await modest.pull(offset=1, sys_flag=WAIT)).code == ResponseCode.PULL_NOT_FOUND
            assert trio.current_time() - began >= 15
            assert broker.pulls.waiters.counts[Reason.OVER_BOUND] == 11


async def test_held_pulls_are_answered_when_the_broker_stops(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    codes: list[int] = []

    async def pull_much(address: str) -> None:
        async with client_of(network, address) as client, trio.open_nursery() as pulls:
            for n in range(300):
                pulls.start_soon(pull, client, f"g{n}")

    async def pull(client: Client, group: str) -> None:
        codes.append((await client.pull(offset=1, sys_flag=WAIT, consumer_group=group)).code)

    async with trio.open_nursery() as nursery:
        async with broker_and_client(network) as (broker, client):
            await client.send()
            nursery.start_soon(pull_much, broker.address)
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 300
            began = trio.current_time()
        assert trio.current_time() - began < 5
    assert codes == [ResponseCode.PULL_NOT_FOUND] * 300
    assert broker.pulls.waiters.counts[Reason.SHUT_DOWN] == 300
