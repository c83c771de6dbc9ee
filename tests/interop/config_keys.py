"""What Apache's own configuration classes say of their keys: names, types and defaults, of two releases.

`python -m tests.interop.config_keys` rewrites the golden list. What depends on the machine is replaced by what it
stands for, and the JVM is told that it has four processors.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.interop.apache import Apache
from tests.interop.drivers import Event, running

if TYPE_CHECKING:
    from collections.abc import Iterable

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "config_keys.tsv"
RELEASES = ("4.9.7", "5.3.3")
PROCESSORS = 4
HEADER = ("class", "key", "type", "in files", *RELEASES)

CLASSES = (
    "common.BrokerConfig",
    "store.config.MessageStoreConfig",
    "remoting.netty.NettyServerConfig",
    "remoting.netty.NettyClientConfig",
    "auth.config.AuthConfig",
    "common.namesrv.NamesrvConfig",
    "common.ControllerConfig",
    "client.ClientConfig",
    "client.producer.DefaultMQProducer",
    "client.producer.TransactionMQProducer",
    "client.consumer.DefaultMQPushConsumer",
    "client.consumer.DefaultLitePullConsumer",
    "client.consumer.DefaultMQPullConsumer",
)
_OF_THE_MACHINE = {
    "brokerIP1": "<address>",
    "brokerIP2": "<address>",
    "brokerName": "<host>",
    "clientIP": "<address>",
    "consumeTimestamp": "<half an hour ago>",
}


class Key(NamedTuple):
    """One line of the golden list; a release without the key has the empty text for its default."""

    owner: str
    key: str
    type: str
    in_files: bool
    """Whether a properties file can set it."""
    defaults: tuple[str, ...]


def asked(releases: Iterable[Apache]) -> list[Key]:
    """Ask the classes of every release."""
    answers = [_answers(release) for release in releases]
    return sorted(
        _key(owner, key, [answer.get((owner, key)) for answer in answers])
        for owner, key in {place for answer in answers for place in answer}
    )


def _answers(release: Apache) -> dict[tuple[str, str], Event]:
    names = ",".join(f"org.apache.rocketmq.{name}" for name in CLASSES)
    options = (f"-XX:ActiveProcessorCount={PROCESSORS}",)
    with running(release, "ConfigKeys", jvm_options=options, classes=names) as driver:
        events = driver.finish()
        home = str(driver.process.home)
    found = {(event["class"], key): facts for event in events for key, facts in event["keys"].items()}
    for facts in found.values():
        if facts["default"] is not None:
            facts["default"] = facts["default"].replace(home, "~")
    return found


def _key(owner: str, key: str, facts: list[Event | None]) -> Key:
    newest = next(each for each in reversed(facts) if each is not None)
    return Key(owner, key, newest["type"], newest["settable"], tuple(_default(key, each) for each in facts))


def _default(key: str, facts: Event | None) -> str:
    if facts is None:
        return ""
    value = facts["default"]
    if value is None:
        return "null"
    return _OF_THE_MACHINE.get(key) or value or '""'


def read_golden() -> list[Key]:
    """The golden list."""
    lines = GOLDEN.read_text("utf-8").splitlines()[1:]
    return [Key(owner, key, kind, files == "yes", tuple(rest)) for owner, key, kind, files, *rest in map(_cells, lines)]


def _cells(line: str) -> list[str]:
    return line.split("\t")


def write_golden(keys: Iterable[Key]) -> None:
    """Write the golden list."""
    rows = [(each.owner, each.key, each.type, "yes" if each.in_files else "no", *each.defaults) for each in keys]
    GOLDEN.write_text("".join("\t".join(row) + "\n" for row in [HEADER, *rows]), "utf-8")


if __name__ == "__main__":
    write_golden(asked(Apache.resolve(version) for version in RELEASES))
