"""What interactive use shows of every public object: one line that says something."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from types import MappingProxyType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs
import pytest

import rocketpy
import rocketpy.admin
import rocketpy.aio
import rocketpy.sync
import rocketpy_broker_sim
from rocketpy import LocalTransactionState, MessageQueue, ProducerConfig, PullConsumerConfig, SendResult, SendStatus
from rocketpy.client.lifecycle import forks
from rocketpy.reprs import MOST, Short, cut, joined
from rocketpy.sync.future import Callbacks, SendFuture, Surroundings
from rocketpy.sync.unseen import Failures
from tests.consumer.helpers import stored

MODULES = (rocketpy, rocketpy.sync, rocketpy.aio, rocketpy.admin, rocketpy_broker_sim)
NAME = "a-rather-long-name-of-something"
QUEUE = MessageQueue("OrdersOfTheWholeCompany", "broker-a", 7)
RESULT = SendResult(SendStatus.FLUSH_DISK_TIMEOUT, "7F0000010A2B00000000C3D4E5F60718", "0A" * 16, QUEUE, 123_456_789)
NOW = datetime(2026, 11, 28, 12, 30, tzinfo=UTC)
ADDRESSES = "10.0.0.1:9876;10.0.0.2:9876;10.0.0.3:9876"
ROLES = (
    "Producer",
    "PushConsumer",
    "LitePullConsumer",
    "PullConsumer",
    "MQClientInstance",
    "TransactionProducer",
    "Admin",
)
PARTS = ("Topics", "Groups", "Offsets", "Messages", "Consumers", "Producers", "Brokers", "NameServers")
MADE: dict[str, Callable[[], object]] = {
    "AllocateByConfig": lambda: rocketpy.AllocateByConfig([QUEUE] * 20),
    "AllocateByMachineRoom": lambda: rocketpy.AllocateByMachineRoom([NAME, NAME[1:], NAME[2:], NAME[3:]]),
    "AllocateConsistentHash": lambda: rocketpy.AllocateConsistentHash(1000),
    "AllocateMachineRoomNearby": lambda: rocketpy.AllocateMachineRoomNearby(
        rocketpy.AllocateConsistentHash(), lambda queue: "", lambda client: ""
    ),
    "LatencyTable": lambda: rocketpy.LatencyTable(latency_max_ms=range(1, 10), not_available_ms=range(1, 10)),
    "LocalFileOffsetStore": lambda: rocketpy.LocalFileOffsetStore("/var/lib/offsets/billing.json"),
    "Message": lambda: rocketpy.Message(QUEUE.topic, b"x" * 10_000, tags="t" * 90, keys=["k" * 90]),
    "MessageExt": lambda: stored(123_456),
    "MessageQueue": lambda: QUEUE,
    "RetryLater": lambda: rocketpy.RetryLater(3, done=4),
    "SendAttempt": lambda: rocketpy.SendAttempt(NAME, "10.0.0.1:10911", rocketpy.ConfigError("x" * 200), 0.25, QUEUE),
    "SendContext": lambda: rocketpy.SendContext(NAME, QUEUE, "10.0.0.1:10911", True, True, True, None, {"a": NAME}),
    "SendResult": lambda: RESULT,
    "ServerConfig": lambda: rocketpy.admin.ServerConfig(server=NAME, settings={str(n): NAME for n in range(200)}),
    "UniqueId": lambda: rocketpy.decode_unique_id(RESULT.message_id),
    "Suspend": lambda: rocketpy.Suspend(1.5),
    "TransactionSendResult": lambda: rocketpy.TransactionSendResult(
        RESULT, RESULT.message_id, LocalTransactionState.UNKNOWN, ValueError("x" * 100)
    ),
}


def public_classes() -> Iterator[tuple[str, type[Any]]]:
    for module in MODULES:
        for name in module.__all__:
            kind = getattr(module, name)
            if not inspect.isclass(kind) or issubclass(kind, BaseException) or getattr(kind, "_is_protocol", False):
                continue  # an error's text is as long as it has to be
            yield f"{module.__name__}.{name}", kind


def made(name: str, kind: Any) -> object:
    """An instance with long names and large numbers."""
    if name in MADE:
        return MADE[name]()
    if issubclass(kind, enum.Enum):
        return next(iter(kind))
    if name.endswith("Cluster"):
        return kind(brokers=12, name_servers=3)
    if name.endswith("Config"):
        group = {} if name == "ClientConfig" else {"group": NAME}
        return kind(**group, namesrv=ADDRESSES, request_timeout=2, connect_timeout=2, access_key=NAME, secret_key="s")
    if name in PARTS:
        return getattr(rocketpy.Admin(namesrv=ADDRESSES), {"NameServers": "name_servers"}.get(name, name.lower()))
    if name in ROLES:
        group = [] if name in ("MQClientInstance", "Admin") else [NAME]
        return kind(*group, namesrv=ADDRESSES, **({"checker": print} if name == "TransactionProducer" else {}))
    hints = get_type_hints(kind, localns=vars(rocketpy) | {name: getattr(rocketpy, name) for name in rocketpy.__all__})
    names = [field.name for field in attrs.fields(kind)] if attrs.has(kind) else kind._fields
    return kind(**{each: value_of(hints[each]) for each in names})


def value_of(hint: Any) -> Any:
    plain = {int: 12_345_678, float: 1234.5678, bool: True, str: NAME, Any: NAME, datetime: NOW}
    if hint in plain:
        return plain[hint]
    if get_origin(hint) in (Union, UnionType):
        return value_of(get_args(hint)[0])
    if get_origin(hint) is Mapping:
        key, value = map(value_of, get_args(hint))
        return MappingProxyType({key: value})
    if get_origin(hint) in (tuple, list):
        return get_origin(hint)([value_of(get_args(hint)[0])] * 5)
    if hint is MessageQueue:
        return QUEUE
    if issubclass(hint, BaseException):
        return hint("x" * 200)
    return made(hint.__name__, hint)


@pytest.mark.parametrize(("path", "kind"), [pytest.param(*each, id=each[0]) for each in public_classes()])
def test_every_public_object_is_shown_in_one_line(path: str, kind: type[Any]) -> None:
    name = path.rpartition(".")[2]
    text = repr(made(name, kind))
    assert len(text) <= MOST
    assert "\n" not in text
    assert " object at 0x" not in text
    assert name in text or issubclass(kind, enum.Enum)


def test_a_config_shows_what_differs_from_the_defaults_and_no_secrets() -> None:
    assert repr(ProducerConfig(group="g", namesrv="a:1")) == "ProducerConfig(group='g', namesrv=('a:1',))"
    config = PullConsumerConfig(group="g", namesrv="", broker_suspend_max_time=1, access_key="k", secret_key="hidden")
    assert repr(config) == "PullConsumerConfig(group='g', access_key='k', broker_suspend_max_time=1)"
    assert "retry_times_when_send_failed=0" in repr(ProducerConfig(group="g", retry_times_when_send_failed=0))


def test_what_matters_is_shown_first() -> None:
    status = rocketpy.PushConsumerStatus(
        state="open",
        client_id="10.0.0.1@4711#1#2",
        group="billing",
        topics=("Orders",),
        balanced=False,
        queues={QUEUE: made("QueueStatus", rocketpy.QueueStatus)},
        locks={},
        errors={"Orders": rocketpy.RouteNotFoundError("no route", topic="Orders")},
        crash=None,
    )
    assert repr(status).startswith("PushConsumerStatus(group='billing', state='open', errors=<1 entry>, balanced=False")
    assert repr(RESULT) == (
        "<SendResult FLUSH_DISK_TIMEOUT OrdersOfTheWholeCompany@broker-a:7+123456789 7F0000010A2B00000000C3D4E5F60718>"
    )


@attrs.frozen(repr=False)
class _Things(Short):
    number: int
    ratio: float = 0.5
    names: tuple[str, ...] = ()
    hidden: str = attrs.field(default="x", repr=False)
    state: SendStatus | None = None
    found: list[int] = attrs.Factory(list)


def test_what_says_nothing_is_left_out() -> None:
    assert repr(_Things(0)) == "_Things()"
    assert repr(_Things(1, 0.0, hidden="y")) == "_Things(number=1, ratio=0)"
    shown = repr(_Things(1, 1 / 3, ("a", "b"), state=SendStatus.SEND_OK, found=[1, 2, 3, 4]))
    assert shown == "_Things(number=1, ratio=0.3333, names=('a', 'b'), state=SEND_OK, found=<4 entries>)"
    context = repr(made("SendContext", rocketpy.SendContext))
    assert "queue=OrdersOfTheWholeCompany@broker-a:7" in context
    assert "_outgoing" not in context


def test_what_is_too_long_is_cut() -> None:
    assert joined("A", ["b" * 50, "c" * 51, "d"]) == f"A({'b' * 50}, ...)"
    assert joined("A", ["b" * 200]) == "A(...)"
    assert cut("x" * MOST) == "x" * MOST
    assert cut("x" * (MOST + 1)) == "x" * (MOST - 3) + "..."
    assert cut(f"<{'x' * MOST}>") == f"<{'x' * (MOST - 5)}...>"


def test_a_future_names_its_topic() -> None:
    def future() -> Future[Any]:
        return SendFuture(Surroundings(lambda _: None, Callbacks("p"), Failures("p"), forks()), "Orders")

    done, failed = future(), future()
    assert repr(done) == "<SendFuture to Orders: under way>"
    done.complete(RESULT._replace(status=SendStatus.SEND_OK))  # type: ignore[attr-defined]
    assert repr(done).startswith("<SendFuture to Orders: <SendResult SEND_OK OrdersOfTheWholeCompany@broker-a:7")
    failed.complete(rocketpy.BrokerError(1, "no room " * 50))  # type: ignore[attr-defined]
    assert repr(failed).startswith("<SendFuture to Orders: BrokerError: request refused with code 1: no room")
    assert isinstance(failed.exception(), rocketpy.BrokerError)
    assert max(len(repr(each)) for each in (done, failed)) <= MOST


def test_a_cluster_says_where_it_is() -> None:
    cluster = rocketpy_broker_sim.BlockingLocalCluster(2)
    assert repr(cluster) == "<BlockingLocalCluster of 2 brokers, 1 name server, not running>"
    with cluster:
        assert repr(cluster).endswith(f"1 name server, at {cluster.name_server_addresses}>")
