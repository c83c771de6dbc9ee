"""The page of settings shows every setting, and says of each what it means or why it is not here."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.config import (
    ClientConfig,
    LitePullConsumerConfig,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumerConfig,
    TransactionProducerConfig,
)
from rocketpy.config.advice import NOT_THERE
from rocketpy_broker_sim.config.table import broker_keys, namesrv_keys
from tests.interop.config_keys import read_golden
from tests.pages import DOCS, extension


@pytest.fixture(scope="module")
def page() -> str:
    source = [(DOCS / "reference/settings.md").read_text("utf-8")]
    extension("settings_tables").fill_page(None, "reference/settings", source)
    return source[0]


@pytest.mark.slow
def test_every_setting_is_on_the_page(page: str) -> None:
    kinds = (TransactionProducerConfig, PushConsumerConfig, LitePullConsumerConfig, PullConsumerConfig)
    fields = [field for kind in kinds for field in attrs.fields(kind)]
    names = {field.name for field in fields} | set(NOT_THERE) | set(broker_keys()) | set(namesrv_keys())
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert "<!-- settings" not in page


def test_every_setting_says_what_it_means(page: str) -> None:
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if not row[-1].strip(" |")] == []
    assert len(rows) > 200


@pytest.mark.parametrize(
    ("owner", "kind"),
    [
        ("DefaultMQProducer", ProducerConfig),
        ("TransactionMQProducer", TransactionProducerConfig),
        ("DefaultMQPushConsumer", PushConsumerConfig),
        ("DefaultLitePullConsumer", LitePullConsumerConfig),
        ("DefaultMQPullConsumer", PullConsumerConfig),
    ],
)
def test_every_setting_of_a_client_of_javas_stands_there_with_ours_or_a_reason(
    owner: str, kind: type[ClientConfig]
) -> None:
    table = extension("settings_tables").content(f"Java's {owner}").splitlines()[2:]
    shown = {}
    for line in table:
        key, _, ours, note = (cell.strip() for cell in line.strip("|").split(" | "))
        shown[key.strip("`")] = ours.strip("`"), note
    assert list(shown) == [each.key for each in read_golden() if each.owner == owner]
    names = {field.name for field in attrs.fields(kind)}
    assert [key for key, (ours, note) in shown.items() if ours not in names and not (ours == "none" and note)] == []
    assert {ours for ours, _ in shown.values()} >= {"group", "client_ip", "message_model"} & names


def test_a_marker_that_asks_for_no_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        extension("settings_tables").fill_page(None, "reference/settings", ["<!-- settings: nothing -->"])
