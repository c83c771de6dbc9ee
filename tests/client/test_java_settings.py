"""Every setting of Java's client classes is here under a name of ours, or the reason why not is written down."""

from __future__ import annotations

import ast
import csv
import enum
from pathlib import Path

import attrs
import pytest

import rocketpy
from rocketpy.config import (
    ClientConfig,
    LitePullConsumerConfig,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumerConfig,
    TransactionProducerConfig,
)
from rocketpy.config.advice import NOT_THERE, SYSTEM_PROPERTIES, advice
from rocketpy.config.foreign import FOREIGN
from rocketpy.config.java import NOT_OF_CLASSES, NOT_THERE_OF, OTHER_DEFAULTS, fields_by_java_name
from rocketpy.config.java_inside import COUNTERPARTS, REASONS
from rocketpy.errors import ConfigError
from tests.interop.config_keys import Key, read_golden

ROOT = Path(__file__).resolve().parents[2]
CLASSES: dict[str, type[ClientConfig]] = {
    "ClientConfig": ClientConfig,
    "DefaultMQProducer": ProducerConfig,
    "TransactionMQProducer": TransactionProducerConfig,
    "DefaultMQPushConsumer": PushConsumerConfig,
    "DefaultLitePullConsumer": LitePullConsumerConfig,
    "DefaultMQPullConsumer": PullConsumerConfig,
}
# Said of all clients by Java, and by us of the roles that it means something to.
TRACED = {ProducerConfig, TransactionProducerConfig, PushConsumerConfig, LitePullConsumerConfig}
OF_ROLES = {
    "enableTrace": TRACED,
    "traceTopic": TRACED,
    "traceMsgBatchNum": TRACED,
    "sendLatencyEnable": {ProducerConfig, TransactionProducerConfig},
    "startDetectorEnable": {ProducerConfig, TransactionProducerConfig},
    "detectInterval": {ProducerConfig, TransactionProducerConfig},
    "detectTimeout": {ProducerConfig, TransactionProducerConfig},
    "pullTimeDelayMillsWhenException": {PushConsumerConfig, LitePullConsumerConfig, PullConsumerConfig},
}


def javas(owner: str) -> dict[str, Key]:
    return {each.key: each for each in read_golden() if each.owner == owner}


@pytest.mark.parametrize("owner", CLASSES)
def test_every_setting_of_javas_is_here_or_says_why_not(owner: str) -> None:
    here = set(fields_by_java_name(CLASSES[owner]))
    missing = NOT_THERE.keys() | NOT_THERE_OF.get(CLASSES[owner], {}).keys()
    for key in javas(owner):
        if CLASSES[owner] in OF_ROLES.get(key, {CLASSES[owner]}):
            assert (key in here) != (key in missing), key


def test_nothing_is_listed_that_java_does_not_have() -> None:
    everywhere = {key for owner in CLASSES for key in javas(owner)}
    assert set(NOT_THERE) - everywhere == set()
    assert set(fields_by_java_name()) - everywhere == set(NOT_OF_CLASSES)
    assert all(reason and reason[-1] != "." for reason in NOT_THERE.values())


def test_defaults_are_javas_or_say_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    different = set()
    for owner, kind in CLASSES.items():
        fresh = kind() if kind is ClientConfig else kind(group="g")
        for key, field in fields_by_java_name(kind).items():
            java = javas(owner).get(key)
            if java is not None and spelled(getattr(fresh, field.name), field) != java.defaults[-1]:
                different.add(key)
    assert different == set(OTHER_DEFAULTS)


def spelled(value: object, field: attrs.Attribute[object]) -> str:
    """A value as Java prints it, in Java's unit."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and not isinstance(value, enum.Enum):
        return f"{value * field.metadata.get('scale', 1):g}" if isinstance(value, float) else str(value)
    return "null" if value is None else str(getattr(value, "name", value))


def inside() -> list[str]:
    """What is set inside of Java's clients: system properties by their names, fields with their classes."""
    with (ROOT / "tests" / "golden" / "java_client_inside.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["system property"] or f"{row['class']}.{row['name']}" for row in rows]


def test_everything_that_is_set_inside_of_javas_clients_is_here_or_says_why_not() -> None:
    keys = inside()
    assert len(keys) == len(set(keys)) > 140
    assert [key for key in keys if (key in COUNTERPARTS) == (key in REASONS)] == []
    assert (COUNTERPARTS.keys() | REASONS.keys()) - set(keys) == set()
    ours = {field.name for kind in CLASSES.values() for field in attrs.fields(kind)}
    assert set(COUNTERPARTS.values()) - ours == set()
    assert all(reason and reason[-1] != "." for reason in REASONS.values())


def test_what_is_set_inside_and_has_a_setting_says_so() -> None:
    settings = fields_by_java_name()
    same_name = [key for key in REASONS if key.rpartition(".")[2] in settings]
    assert same_name == ["ProduceAccumulator.instanceName"], "which is a counter"


def test_the_two_lists_of_javas_settings_agree() -> None:
    """One is of Java's classes as they answered, the other one of their source."""
    missing = {key: reason for key, reason in REASONS.items() if key.startswith("NettyClientConfig.")}
    asked = {f"NettyClientConfig.{key}" for key in javas("NettyClientConfig")}
    assert asked == missing.keys() | {key for key in COUNTERPARTS if key.startswith("NettyClientConfig.")}
    assert {key: REASONS[key] for key in SYSTEM_PROPERTIES if key in REASONS}.items() <= SYSTEM_PROPERTIES.items()


@pytest.mark.slow
def test_what_is_here_is_read_by_somebody() -> None:
    root = Path(rocketpy.__file__).parent
    trees = [ast.parse(path.read_text("utf-8")) for path in root.rglob("*.py") if path.parent != root / "config"]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in nodes if isinstance(node.ctx, ast.Load)}
    assert {field.name for kind in CLASSES.values() for field in attrs.fields(kind)} - read == set()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("send_timout", "send_timout: did you mean send_timeout?"),
        ("sendMsgTimeout", "it is called send_timeout here"),
        ("send_msg_timeout", "it is called send_timeout here"),
        ("use_tls", "there is no TLS"),
        ("vipChannelEnabled", "never to the port next to it"),
        ("latencyMax", "pass a LatencyTable as latency_table"),
        ("sendLatencyFaultEnable", "called send_latency_enable here"),
        ("startDetectorEnable", "it is called start_detector_enable here"),
        ("minInterval", "failures are retried after 1 s"),
        ("pull_max_idle_time", "is taken again"),
        ("zzz", "has no setting zzz$"),
    ],
)
def test_a_wrong_name_gets_advice(written: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ProducerConfig.of(None, group="g", **{written: 1})


def test_names_of_other_clients_get_advice_that_can_be_followed() -> None:
    """Every setting that is recommended exists where it is, and advice is given by some role for every name."""
    said: dict[str, dict[str, str]] = {name: {} for name in FOREIGN}
    for kind in CLASSES.values():
        known = [field.name for field in attrs.fields(kind)]
        for name, (settings, note) in FOREIGN.items():
            assert name not in known
            if {*settings} & {*known} or not settings:
                given = said[name][kind.__name__] = advice(name, kind)
                assert all(setting in given for setting in settings if setting in known), (name, given)
                assert note in given or "it is called" in given, (name, given)
    assert [name for name, given in said.items() if not given] == []
    assert said["linger_ms"]["ProducerConfig"] == "it is called linger here: in seconds"
    assert "PushConsumerConfig" not in said["linger_ms"]
    assert "flushDiskType" in said["acks"]["ProducerConfig"]
    with pytest.raises(ConfigError, match="bootstrap_servers: it is called namesrv here: the addresses of name serv"):
        PushConsumerConfig.of(None, group="g", bootstrap_servers="a:1")


def test_a_setting_of_another_role_is_not_recommended() -> None:
    assert advice("pullBatchSize", ProducerConfig) == ""


def test_a_name_of_javas_lite_pull_gets_advice() -> None:
    with pytest.raises(ConfigError, match="it is called poll_timeout here"):
        LitePullConsumerConfig.of(None, group="g", pollTimeoutMillis=1000)
