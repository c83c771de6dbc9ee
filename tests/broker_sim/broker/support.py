"""What the table tests share: a clock to turn, channels without a network, golden files."""

from __future__ import annotations

from rocketpy.wire.bodies.heartbeat import ConsumerData
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.codes import LanguageCode
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpy_broker_sim.broker.tables.clients import ClientChannel
from rocketpy_broker_sim.config import parse_properties
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.golden_store import FOLDER, unpacked

BAD_NAMES = [
    "../x",
    "../../../../etc/x",
    "a/b",
    "a\\b",
    "a\0b",
    ".",
    "..",
    "",
    " ",
    "a b",
    "名",
    "ａ",
    "a" * 300,
    "CON.txt",
    "a@b",
    "a\r\nb",
]
"""Names that must never reach a table, a path or a log as they are."""


class FakeChannel:
    """A connection that only has an address."""

    def __init__(self, name: str = "c") -> None:
        self.address = f"10.0.0.1:{abs(hash(name)) % 60000}"
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Clock:
    """A clock that stands until it is turned."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def client(channel: FakeChannel, client_id: str | None = None) -> ClientChannel:
    return ClientChannel(channel, client_id or f"id-{channel.name}", LanguageCode.JAVA, 479)


def consumer(
    *topics: str, version: int = 1, model: MessageModel = MessageModel.CLUSTERING, group: str = "G"
) -> ConsumerData:
    return ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=model,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        subscription_data_set=[SubscriptionData(topic=topic, sub_version=version) for topic in topics],
    )


def golden_file(version: str, name: str) -> bytes:
    """A configuration file that Apache's broker wrote."""
    return (unpacked(version) / "config" / name).read_bytes()


def golden_settings(version: str) -> dict[str, str]:
    """The settings under which that broker ran, by Java's keys."""
    return parse_properties((FOLDER / version / "broker.conf").read_text("utf-8"))


def golden_storage(version: str, folder: str = "config") -> MemoryStorage:
    """A store directory with a folder ("" for all of them) as Apache's broker left it."""
    storage = MemoryStorage()
    root = unpacked(version)
    for path in sorted((root / folder).rglob("*")):
        if path.is_file() and path.name != "lock" and path.suffix != ".bak":
            storage.write_bytes_atomic(path.relative_to(root).as_posix(), path.read_bytes())
    return storage
