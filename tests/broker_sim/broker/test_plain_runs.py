"""Plain sends that are taken a run at a time: stored and answered byte for byte as one by one."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.codes import ONEWAY_FLAG, RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.hosts import parse_address
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.names import TRANSACTION_HALF_TOPIC
from rocketpy.wire.send_layout import SendReader
from rocketpy.wire.serialize import decode_command, encode_command
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.flushing import flusher
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.runs.plain_runs import PlainRuns
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.flushing.test_flusher import Hanging
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, bodies, broker_and_client, send_fields
from tests.broker_sim.broker.kit import settings as kit_settings
from tests.broker_sim.broker.test_turn import full

KEY = "UNIQ_KEY\x01K{}\x02WAIT\x01true\x02"


class Taken:
    """How many sends each run had that was taken as a plain one; 0 for one that was not plain."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.runs: list[int] = []
        take = PlainRuns.take

        def counted(runs, connection, requests):
            found = take(runs, connection, requests)
            self.runs.append(0 if found is None else len(requests))
            return found

        patch.setattr(PlainRuns, "take", counted)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    return Taken(monkeypatch)


def send(opaque: int, properties: str | None = None, *, body: bytes = b"x", way: int = 0, **fields) -> RemotingCommand:
    text = KEY.format(opaque) if properties is None else properties
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, send_fields("T", text, **fields), body, opaque, way)


class Wire:
    """A stream to a broker: writes several frames at once, reads the answers."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._decoder = FrameDecoder()

    async def ask(self, *commands: RemotingCommand) -> dict[int, bytes]:
        """The headers of the answers, by opaque."""
        await self._stream.send_all(b"".join(map(encode_command, commands)))
        wanted = {command.opaque for command in commands if not command.is_oneway}
        found: dict[int, bytes] = {}
        while found.keys() != wanted:
            self._decoder.receive_data(bytes(await self._stream.receive_some(65536)))
            found |= {decode_command(frame).opaque: frame.header for frame in self._decoder.frames()}
        return found

    async def begin(self) -> None:
        """Let the broker make the topic and its queues, and know the layout."""
        for queue in range(4):
            await self.ask(send(1000 + queue, queue_id=queue))


async def wire_to(network: MemoryNetwork, broker: Broker) -> Wire:
    return Wire(await network.open_stream(*parse_address(broker.address)))


async def test_sends_of_one_read_go_together(autojump_clock: MockClock, taken: Taken) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, client):
        wire = await wire_to(network, broker)
        await wire.begin()
        answers = await wire.ask(*[send(n, queue_id=n % 4, body=b"%d" % n) for n in range(20)])
        assert taken.runs[-1] == 20
        assert [decode_answer(answers[n]).ext_fields["queueOffset"] for n in (1, 5, 9)] == ["1", "2", "3"]
        assert bodies(await client.pull("T", 1, 1)) == [b"%d" % n for n in range(1, 20, 4)]
        assert broker.counting.statistics.totals().put == 24
        assert sum(broker.storing.put_times._now.spans) == 24


def decode_answer(header: bytes) -> RemotingCommand:
    decoder = FrameDecoder()
    decoder.receive_data((4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    return decode_command(decoder.frames()[0])


# --- one by one, and together ----------------------------------------------------------------------------

ODD_PROPERTIES = [
    "", "a\x01b", "UNIQ_KEY\x01\x02", "UNIQ_KEY\x01A\x02UNIQ_KEY\x01B\x02", "UNIQ_KEY\x01A", "xUNIQ_KEY\x01A\x02",
    "k\x01v\x02UNIQ_KEY\x01A", "UNIQ_KEY\x01A\x01B\x02", "UNIQ_KEY\x01A\x02WAIT\x01false\x02",
    "UNIQ_KEY\x01A\x02WAIT\x01TRUE", "UNIQ_KEY\x01A\x02WAIT\x01true", "UNIQ_KEY\x01A\x02DELAY\x013\x02",
    "UNIQ_KEY\x01A\x02CLUSTER\x01mine\x02", "UNIQ_KEY\x01A\x02REAL_TOPIC\x01X\x02",
    "UNIQ_KEY\x01A\x02TAGS\x01a\x02KEYS\x01k1 k2\x02", "UNIQ_KEY\x01é\x02", "UNIQ_KEY\x01A\x02TIMER_DELAY_SEC\x011\x02",
    "UNIQ_KEY\x01A\x02__CRC32#\x0100\x02", 'UNIQ_KEY\x01"\\\x02', "UNIQ_KEY\x01A\x02TAGS\x01" + "t" * 32767 + "\x02",
]  # fmt: skip
TAGGED = ["UNIQ_KEY\x01A\x02TAGS\x01a\x02KEYS\x01k1 k2\x02", "KEYS\x01k2\x02UNIQ_KEY\x01B\x02TAGS\x01b"]
HALF = "UNIQ_KEY\x01A\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02"
HALVES = [HALF, HALF + "TAGS\x01a\x02KEYS\x01k1 k2", "WAIT\x01true\x02" + HALF]
ODD_HALVES = [
    "TRAN_MSG\x01true\x02", HALF + HALF, HALF + "TAGS\x01a\x02TAGS\x01b\x02", HALF + "a\x01\x02", HALF + "a\x02",
    HALF + "\x01a\x02", HALF + "a\x01b\x01c\x02", HALF + "\x02", HALF + "DELAY\x013\x02", HALF + "WAIT\x01false\x02",
    HALF + "REAL_TOPIC\x01X\x02", HALF + "__transactionId__\x01X\x02", HALF + "CLUSTER\x01mine", HALF + "xDELAY\x013",
    HALF.replace("true", "TRUE"), HALF.replace("true", "false"), HALF + "TRAN_MSG\x01\x02",
    HALF + "TIMER_DELAY_MS\x01x",
]  # fmt: skip
SENDS = st.lists(
    st.tuples(
        st.one_of(st.none(), *map(st.sampled_from, (TAGGED, ODD_PROPERTIES, HALVES, ODD_HALVES))),
        st.sampled_from([0, 1, 2, 3, 1, 2, -1, 4]),
        st.sampled_from([b"x", b"y", b"y" * 300, b"y" * 1900, b"", b"z" * 2001]),
        st.sampled_from([0, 0, 0, ONEWAY_FLAG]),
    ),
    max_size=40,
)
USUAL = [(properties, n % 4, b"%d" % n, 0) for n, properties in enumerate([None, *TAGGED] * 4)]
"""Nothing about them is odd. The first one shows the layout, the others are a run."""
USUAL_HALVES = [(properties, n % 4, b"%d" % n, 0) for n, properties in enumerate(HALVES * 4)]
COMMON = st.fixed_dictionaries(
    {
        "flag": st.sampled_from([0, 7]),
        "sys_flag": st.sampled_from([0, 2, 4, 0x82]),
        "reconsume_times": st.sampled_from([None, 0, 3]),
    }
)
"""Of all sends of a run: its layout is that of its first one."""
UNUSUAL = {"flag": 7, "sys_flag": 0x82, "reconsume_times": 3}
KEPT = ("commitlog", "consumequeue", "index")
BORN, STORED = bytes([10, 0, 0, 1, 0, 0, 4, 1]), bytes([10, 0, 0, 2, 0, 0, 4, 2])
SMALL = {"max_message_size": 2000, "mapped_file_size_commit_log": 16 * 1024}


def each_odd_half(test: Any) -> Any:
    """An example for each of them: the first send shows the layout, the other one is a run."""
    for text in ODD_HALVES:
        sends = [(HALF, 1, b"x", 0), (text, 1, b"x", 0)]
        test = example(sends=sends, common=UNUSUAL | {"reconsume_times": None})(test)
    return test


@pytest.mark.slow
@pytest.mark.parametrize("with_crc", [False, True])
@given(sends=SENDS, common=COMMON)
@example(sends=USUAL, common=UNUSUAL)
@example(sends=USUAL[:2], common=UNUSUAL)
@example(sends=USUAL_HALVES, common=UNUSUAL | {"reconsume_times": None})
@example(sends=USUAL_HALVES, common=UNUSUAL)
@each_odd_half
@settings(max_examples=25, deadline=None)
def test_what_is_stored_and_answered_is_that_of_sends_one_by_one(with_crc: bool, sends, common) -> None:
    assert trio.run(played, sends, common, with_crc, False) == trio.run(played, sends, common, with_crc, True)


async def played(sends, common, with_crc: bool, by_itself: bool):
    """Answers, what a consumer of one tag gets, and files, of sends that come at once."""
    network, storage = MemoryNetwork(), MemoryStorage()
    with pytest.MonkeyPatch.context() as patch, wall_clock(lambda: 1_700_000_000_000):
        patch.setattr("rocketpy_broker_sim.broker.send_checks.random_source", First)
        patch.setattr("rocketpy.wire.message_id.UniqueIds.next", lambda self: "MADE")
        for place in ("runs.plain_runs", "send_checks"):
            patch.setattr(f"rocketpy_broker_sim.broker.{place}.packed_address", lambda address: BORN)
        if by_itself:
            patch.setattr(SendReader, "read", lambda self, frame: decode_command(frame))
        async with broker_and_client(network, storage, enabled_append_prop_crc=with_crc, **SMALL) as (broker, client):
            broker.identity.store_host = STORED
            wire = await wire_to(network, broker)
            await wire.begin()
            commands = [
                send(n, properties, queue_id=queue, body=body, way=way, born_timestamp=1000 + n, **common)
                for n, (properties, queue, body, way) in enumerate(sends)
            ]
            answers = await wire.ask(*commands, send(999, queue_id=0, body=b"last"))
            pulled = [(await client.pull(queue=queue, subscription="a")).body for queue in range(4)]
        return answers, pulled, {path: storage.read_bytes(path) for path in files(storage, *KEPT)}


class First:
    """A random source that always takes the first."""

    def randrange(self, end: int) -> int:
        return 0


def files(storage: MemoryStorage, *folders: str) -> list[str]:
    found, left = [], list(folders)
    while left:
        path = left.pop()
        if storage.is_dir(path):
            left += [f"{path}/{name}" for name in storage.list(path)]
        else:
            found.append(path)
    return sorted(found)


async def test_half_messages_of_one_read_go_together(autojump_clock: MockClock, taken: Taken) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, _):
        wire = await wire_to(network, broker)
        await wire.begin()
        for count in (1, 1, 20):  # the topic and the layout are new; one is put as one
            await trio.sleep(1)
            answers = await wire.ask(*[send(n, HALVES[n % 3], queue_id=n % 4, sys_flag=4) for n in range(count)])
        assert taken.runs[-2:] == [1, 20]
        fields = decode_answer(answers[6]).ext_fields
        assert (fields["queueId"], fields["queueOffset"], fields["transactionId"]) == ("2", "8", "A")
        assert broker.transactions.ledger.metrics.counts() == {"T": 22}
        (half,) = decode_messages(broker.store.reads.get(TRANSACTION_HALF_TOPIC, 0, 21, 1).records)
        waited = broker.store.clock.waited_ms(half.commit_log_offset, half.store_timestamp)
        assert waited is not None
        assert waited < 100  # the wall clock of the test did not go on


async def test_half_messages_whose_commit_would_find_no_queue_are_refused(
    autojump_clock: MockClock, taken: Taken
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, max_queues=2) as (broker, _):
        wire = await wire_to(network, broker)
        for _ in range(3):
            await wire.ask(send(0, HALF, queue_id=0, sys_flag=4))
        answers = await wire.ask(*[send(n, HALF, queue_id=n % 2, sys_flag=4) for n in range(4)])
        assert taken.runs[-2:] == [1, 0]
        codes = [decode_answer(answers[n]).code for n in range(4)]
        assert codes == [0, ResponseCode.SYSTEM_ERROR] * 2


async def test_a_consumer_of_one_tag_that_waits_hears_of_a_run(autojump_clock: MockClock, taken: Taken) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, client), trio.open_nursery() as nursery:
        wire = await wire_to(network, broker)
        await wire.begin()
        pulled: list[bytes] = []

        async def wait_for_tag() -> None:
            pulled.extend(bodies(await client.pull(offset=1, subscription="a", sys_flag=SUSPEND | SUBSCRIPTION)))

        nursery.start_soon(wait_for_tag)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        await wire.ask(*[send(n, properties, body=b"%d" % n) for n, properties in enumerate([None, *TAGGED] * 2)])
        await wait_all_tasks_blocked()
        assert (taken.runs[-1], pulled, trio.current_time()) == (6, [b"1", b"4"], began)


# --- what goes wrong -------------------------------------------------------------------------------------


async def test_a_run_that_the_disk_refuses_is_refused_as_each_send_is(autojump_clock: MockClock, taken: Taken) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    async with broker_and_client(network, storage) as (broker, client):
        wire = await wire_to(network, broker)
        await wire.begin()
        storage.fault = full
        answers = await wire.ask(*[send(n) for n in range(5)])
        assert taken.runs[-1] == 5
        assert {decode_answer(each).code for each in answers.values()} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert broker.storing.put_times.failed == 5
        storage.fault = None
        answers = await wire.ask(*[send(n, body=b"%d" % n) for n in range(5)])
        assert [decode_answer(answers[n]).ext_fields["queueOffset"] for n in range(5)] == ["1", "2", "3", "4", "5"]
        assert bodies(await client.pull(offset=1)) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_run_waits_for_the_disk_as_each_send_does(
    autojump_clock: MockClock, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=5000) as (broker, _):
        wire = await wire_to(network, broker)
        await wire.begin()
        monkeypatch.setattr(flusher, "run_blocking", Hanging(2))
        began = trio.current_time()
        answers = await wire.ask(*[send(n) for n in range(5)])
        assert (taken.runs[-1], trio.current_time() - began >= 2) == (5, True)
        assert {decode_answer(each).code for each in answers.values()} == {0}
        monkeypatch.setattr(flusher, "run_blocking", Hanging(20))
        answers = await wire.ask(*[send(n, body=b"late") for n in range(5)])
        for n in range(5):
            answer = decode_answer(answers[n])
            assert (answer.code, answer.ext_fields["queueOffset"]) == (ResponseCode.FLUSH_DISK_TIMEOUT, str(6 + n))


async def test_a_run_counts_among_the_sends_that_wait_for_the_disk(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = MemoryNetwork()
    config = {"flush_disk_type": "SYNC_FLUSH", "send_thread_pool_queue_capacity": 8}
    async with broker_and_client(network, **config) as (broker, _), trio.open_nursery() as nursery:
        first, second = await wire_to(network, broker), await wire_to(network, broker)
        for wire in (first, second):
            await wire.begin()
        monkeypatch.setattr(flusher, "run_blocking", Hanging(2))
        nursery.start_soon(first.ask, *[send(n) for n in range(8)])
        await trio.sleep(1)
        assert broker.storing.gate.is_full
        answers = await second.ask(send(1), send(2))
        assert {decode_answer(each).code for each in answers.values()} == {ResponseCode.SYSTEM_BUSY}


async def test_a_descriptor_that_is_missing_is_no_end_of_a_run(autojump_clock: MockClock) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    async with broker_and_client(network, storage) as (broker, _):
        wire = await wire_to(network, broker)
        await wire.begin()
        with storage.failing("pwrite", code=errno.EMFILE, under="commitlog"):
            answers = await wire.ask(*[send(n) for n in range(3)])
        assert {decode_answer(each).code for each in answers.values()} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        answers = await wire.ask(*[send(n) for n in range(3)])
        assert {decode_answer(each).code for each in answers.values()} == {0}


@pytest.mark.parametrize("stop", ["pull", "other topic"])
async def test_sends_are_stored_in_the_order_in_which_they_came_whatever_stands_between(
    autojump_clock: MockClock, taken: Taken, stop: str
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, client):
        wire = await wire_to(network, broker)
        await wire.begin()
        between = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}, opaque=50)
        if stop == "other topic":
            between = RemotingCommand(RequestCode.SEND_MESSAGE_V2, send_fields("U", KEY), b"u", 50)
        sends = [send(n, body=b"%d" % n) for n in range(6)]
        await wire.ask(*sends[:3], between, *sends[3:5], send(6, "UNIQ_KEY\x01A\x02WAIT\x01false\x02"), sends[5])
        assert bodies(await client.pull(offset=1)) == [b"0", b"1", b"2", b"3", b"4", b"x", b"5"]


class Moving:
    """A hook that sends every message to another queue."""

    def before_request(self, address: str, command: RemotingCommand) -> None:
        if command.code == RequestCode.SEND_MESSAGE_V2:
            command.ext_fields["e"] = "3"

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        pass


async def test_what_a_hook_changes_in_a_send_holds_though_its_header_was_known(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with open_broker(kit_settings(), network=network, storage=MemoryStorage(), hooks=[Moving()]) as broker:
        wire = await wire_to(network, broker)
        await wire.ask(*[send(n) for n in range(5)])
        assert [broker.store.reads.max_offset("T", queue) for queue in (0, 3)] == [0, 5]
