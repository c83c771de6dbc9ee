"""The verdict on a store: whole ones pass, and each kind of loss is seen."""

from __future__ import annotations

import json

import pytest

from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage
from tests.kill.campaign import Outcome
from tests.kill.content import GROUPS, QUEUES, SHARING, TOPIC, TRANSACTED, State, message_of, verdict_of
from tests.kill.history import Delivery, Fault, History, Send
from tests.kill.servers import Servers
from tests.kill.verdict import judge

COUNT = 80
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


class Run:
    """A store, and a history that agrees with it."""

    def __init__(self, home) -> None:
        self.servers = Servers(home, 0)
        self.servers.write()
        self.history = History()
        store = MessageStore(RealStorage(self.servers.store), self.servers.store_settings())
        store.load()
        for number in range(COUNT):
            self._send(store, f"p.0-{number}", number % QUEUES, number)
            self._end_transaction(store, f"t.0-{number}")
        store.close()
        self.commit(0)

    def _send(self, store, name: str, queue_id: int, at: float) -> None:
        result = self._put(store, TOPIC, queue_id, name)
        place = queue_id, result.queue_offset
        self.history.sends.append(Send(name, "ok", at, at, *place, "", result.offset_message_id))
        self.history.acked += 1
        for group in GROUPS:
            self.history.ended[len(self.history.deliveries)] = at + 1.5
            self.history.deliveries.append(Delivery(name, at + 1, group, "consumer-1-0", *place, "", True))

    def _end_transaction(self, store, name: str) -> None:
        if verdict_of(name)[1] is State.COMMIT:
            self._put(store, TRANSACTED, 0, name)
        self.history.transactions[name] = "taken"
        self.history.asked[name] += 1

    def _put(self, store, topic: str, queue_id: int, name: str):
        message = message_of(name)
        properties = encode_properties(message.wire_properties)
        result = store.put(IncomingMessage(topic, queue_id, message.body, properties, born_host=HOST, store_host=HOST))
        store.commit_pending()
        return result

    def commit(self, offset: int) -> None:
        table = {f"{TOPIC}@{group}": {str(queue_id): offset for queue_id in range(QUEUES)} for group in SHARING}
        path = self.servers.store / "config" / "consumerOffset.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"offsetTable": table}))

    def replace(self, number: int, **fields) -> None:
        self.history.sends[number] = self.history.sends[number]._replace(**fields)

    def broken(self, *timed: int) -> set[str]:
        outcome = Outcome(self.history, timed=timed)
        self.history.faults.append(Fault("kill", 0.0, "broker"))
        return {each.invariant for each in judge(self.servers, outcome).violations}


@pytest.fixture
def run(tmp_path) -> Run:
    return Run(tmp_path)


def test_a_store_that_holds_what_was_acknowledged_passes(run):
    assert run.broken() == set()


def test_an_acknowledged_message_that_is_not_there_is_lost(run):
    last = run.history.sends[-1]
    run.history.sends.append(last._replace(name="p.0-lost", offset=last.offset + 1))
    assert run.broken() == {"I1", "I2", "I15"}


def test_an_acknowledgement_with_a_wrong_place_is_seen(run):
    run.replace(5, offset_message_id=run.history.sends[6].offset_message_id)
    assert run.broken() == {"I6"}


def test_a_message_that_was_never_sent_is_seen(run):
    del run.history.sends[7]
    assert "I5" in run.broken()


def test_a_message_whose_send_failed_must_not_be_there(run):
    run.replace(7, kind="fail")
    assert "I3" in run.broken()


def test_a_damaged_delivery_is_seen(run):
    run.history.deliveries[9] = run.history.deliveries[9]._replace(whole=False)
    assert run.broken() == {"I5"}


@pytest.mark.parametrize(
    "counts", [(9, 1, 0, 0, 0), (9, 0, 1, 0, 0), (9, 0, 0, 1, 0)], ids=("early", "lost", "recalled")
)
def test_timer_messages_that_break_a_promise_are_seen(run, counts):
    assert run.broken(9, 0, 0, 0, 5) == set()
    assert "I7" in run.broken(*counts)


def test_TX1_a_transaction_that_ends_otherwise_than_its_producer_wants_is_seen(run):
    for name in run.history.transactions:
        if verdict_of(name)[1] is State.COMMIT:
            del run.history.transactions[name]  # so it was never sent, and is there
            break
    assert run.broken() == {"I17"}


@pytest.mark.parametrize("what", ["transactions", "asked"])
def test_a_run_without_enough_transactions_says_nothing(run, what):
    if what == "asked":
        run.history.asked.clear()
        assert run.broken() == {"I24"}
    else:
        run.history.transactions = dict.fromkeys(run.history.transactions, "unknown")
        assert run.broken() == {"I24"}


def test_offsets_that_fall_are_seen(run):
    run.replace(0, began=1e6)
    assert run.broken() == {"I8"}


def test_a_group_behind_the_end_is_seen(run):
    run.commit(COUNT)
    assert run.broken() == {"I13"}


def test_files_that_disagree_are_seen(run):
    (unit,) = (run.servers.store / "consumequeue" / TOPIC / "3").iterdir()
    data = bytearray(unit.read_bytes())
    data[20 * 4 + 7] ^= 1  # the position of the fifth message
    unit.write_bytes(data)
    assert "I7" in run.broken()


def test_a_run_without_acknowledgements_says_nothing(run):
    for number in range(3, COUNT):
        run.replace(number, kind="info")
    assert run.broken() == {"I24"}
