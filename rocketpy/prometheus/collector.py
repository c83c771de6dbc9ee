"""ClientCollector: the public API."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from prometheus_client import Metric
from prometheus_client.registry import Collector

from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.logs import get_logger, quote
from rocketpy.prometheus.figures import ROLES

if TYPE_CHECKING:
    from rocketpy.prometheus.figure import Figure

__all__ = ["ClientCollector", "HasStatistics", "Shown"]

log = get_logger(__name__)

_OF_CLIENT = ("clientId",)
_OF_ROLE = ("clientId", "group")
_UP = "rocketmq_client_up"
_UP_LABELS = ("role", *_OF_ROLE)


class Shown(NamedTuple):
    """A metric that the collector can show.

    Attributes:
        name: The name of its samples.
        labels: The names of its labels.
        help: What it means.
    """

    name: str
    labels: tuple[str, ...]
    help: str


class HasStatistics(Protocol):
    """A producer, a consumer, or a client."""

    def statistics(self) -> object:
        """What it has done."""
        ...


class ClientCollector(Collector):
    """Shows the statistics of producers, consumers and clients to a registry of prometheus-client.

    ``prometheus_client.REGISTRY.register(ClientCollector(producer, consumer))``. Any thread may scrape. Register one
    collector, and add to it what comes later. A closed producer or consumer is still shown, with `rocketmq_client_up`
    at 0; remove it when you drop it, because the collector keeps it in memory.

    Args:
        roles: producers, consumers and `MQClientInstance` objects, of any surface.

    Raises:
        ConfigError: one of them is none of these, or is passed twice.
    """

    def __init__(self, *roles: HasStatistics) -> None:
        self._lock = threading.Lock()
        self._roles: tuple[HasStatistics, ...] = ()
        for role in roles:
            self.add(role)

    def __repr__(self) -> str:
        """How many objects it shows."""
        return f"<ClientCollector of {len(self._roles)}>"

    def add(self, role: HasStatistics) -> None:
        """Show a producer, a consumer or a client too, before or after its start.

        Raises:
            ConfigError: it is none of these, or is shown already.
        """
        if isinstance(role, type) or not callable(getattr(role, "statistics", None)):
            raise ConfigError(f"expected a producer, a consumer or an MQClientInstance, got {role!r:.100}")
        _identity_of(role)
        with self._lock:
            if any(each is role for each in self._roles):
                raise ConfigError(f"{role!r:.100} is shown already: add it once")
            self._roles = (*self._roles, role)

    def remove(self, role: HasStatistics) -> None:
        """Stop showing it. Does nothing if it is not shown."""
        with self._lock:
            self._roles = tuple(each for each in self._roles if each is not role)

    @staticmethod
    def shown() -> list[Shown]:
        """All metrics that it can show, for documentation."""
        return [Shown(name, labels, made.documentation) for name, (made, labels) in _empty().items()]

    def describe(self) -> Iterable[Metric]:
        """All metrics, without samples; for the registry."""
        return [made for made, _ in _empty().values()]

    def collect(self) -> Iterator[Metric]:
        """The metrics of all producers, consumers and clients; for the registry. Thread-safe, and never raises."""
        families = _empty()
        for role in self._roles:
            try:
                statistics = role.statistics()
            except RocketMQError:  # a consumer that was never started has none
                statistics = None
            except Exception as exc:  # noqa: BLE001  a scrape shows the others in any case
                log.warning("%s has no statistics: %s", role, exc)
                statistics = None
            _add_role(families, role, statistics)
        for made, _ in families.values():
            if made.samples:
                yield made


_Families = dict[str, tuple[Metric, tuple[str, ...]]]
"""By the name of a metric: what is collected, and its labels."""


def _empty() -> _Families:
    found: _Families = {_UP: (Metric(_UP, "1 if it is open, 0 if it is not open yet or closed", "gauge"), _UP_LABELS)}
    for figures in ROLES.values():
        own = _OF_CLIENT if figures.role == "client" else _OF_ROLE
        parts = [(own, figures.figures), *(((*own, part.label), part.figures) for part in figures.parts)]
        for labels, members in parts:
            for figure in members:
                if figure.name not in found:
                    name = figure.name.removesuffix("_total") if figure.kind == "counter" else figure.name
                    found[figure.name] = Metric(name, figure.help, figure.kind), (*labels, *figure.labels)
    return found


def _identity_of(role: HasStatistics) -> tuple[str, str]:
    """The id of the client, and the group; "" for a client itself.

    Raises:
        ConfigError: it is not an object of rocketpy.
    """
    inner = _of_trio(role)
    try:
        if hasattr(inner, "client_id"):
            return inner.client_id, ""
        return inner.client.client_id, inner.config.group
    except AttributeError:
        raise ConfigError(f"expected a producer, a consumer or an MQClientInstance, got {role!r:.100}") from None


def _of_trio(role: HasStatistics) -> Any:
    """The object of the trio surface: the one behind that of another surface, or the object itself."""
    return getattr(role, "_inner", role)


def _role_name(role: HasStatistics) -> str:
    """The name of a role that has no statistics yet, such as push_consumer."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", type(role).__name__).lower()


def _add_role(families: _Families, role: HasStatistics, statistics: object) -> None:
    client_id, group = map(quote, _identity_of(role))
    figures = ROLES.get(type(statistics))
    is_up = _of_trio(role)._lifecycle.is_open
    name = figures.role if figures is not None else _role_name(role)
    families[_UP][0].add_sample(_UP, {"role": name, "clientId": client_id, "group": group}, int(is_up))
    if figures is None:
        return
    own = (client_id, group) if group else (client_id,)
    _add(families, figures.figures, own, statistics)
    for part in figures.parts:
        for key, record in part.records(statistics).items():
            _add(families, part.figures, (*own, quote(key)), record)


def _add(families: _Families, figures: Iterable[Figure], values: tuple[str, ...], record: object) -> None:
    for figure in figures:
        made, labels = families[figure.name]
        for more, value in figure.samples(record):
            made.add_sample(figure.name, dict(zip(labels, (*values, *more), strict=True)), value)
