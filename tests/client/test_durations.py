"""Durations are seconds or a timedelta in every setting, and kept as seconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_type_hints

import attrs
import pytest

from rocketpy import Suspend
from rocketpy.client.arguments import checked_seconds
from rocketpy.config.java import CONFIGS
from rocketpy.durations import duration, duration_or_none
from rocketpy.errors import ConfigError
from rocketpy.producer.timeouts import checked_timeout
from tests.tables import Table

DURATIONS = [
    (kind, field.name)
    for kind in CONFIGS
    for field in attrs.fields(kind)
    if get_type_hints(kind)[field.name] in (float, float | None)
]


def test_every_setting_that_is_a_duration_takes_a_timedelta() -> None:
    with Table() as table:
        for kind, name in DURATIONS:
            with table.row(f"{kind.__name__}.{name}"):
                seconds = 0.5 if name == "linger" else getattr(kind.of(None, **_group(kind)), name) or 2.0
                given = timedelta(seconds=seconds)
                kept = getattr(kind.of(None, **_group(kind), **{name: given}), name)
                assert (kept, type(kept)) == (seconds, float)


def test_what_is_no_duration_is_refused() -> None:
    with Table() as table:
        for kind, name in DURATIONS:
            for wrong in ("3", True, [1]):
                with table.row(f"{kind.__name__}.{name} {wrong!r}"):
                    with pytest.raises(ConfigError, match=f"^{name} must be seconds or a timedelta, not "):
                        kind.of(None, **_group(kind), **{name: wrong})
            with table.row(f"{kind.__name__}.{name} of a month"):
                with pytest.raises(ConfigError, match=f"^{name} must be .* seconds, not 2678400"):
                    kind.of(None, **_group(kind), **{name: timedelta(days=31)})


def test_whole_seconds_are_kept_as_a_float() -> None:
    assert type(duration(3)) is float
    assert duration(2**60) == 2**60
    assert duration(timedelta(milliseconds=1)) == 0.001
    assert duration_or_none(None) is None


def test_a_queue_is_suspended_for_a_timedelta() -> None:
    assert Suspend(timedelta(milliseconds=500)) == Suspend(0.5)
    with pytest.raises(ConfigError, match=r"suspended for 0.01 to 30 seconds, not 60"):
        Suspend(timedelta(minutes=1))
    with pytest.raises(ConfigError, match="30 seconds: give seconds or a timedelta, not '1'"):
        Suspend("1")


def test_a_timeout_of_a_call_is_seconds_or_a_timedelta() -> None:
    assert checked_timeout(timedelta(seconds=2)) == 2.0
    assert checked_seconds("timeout", timedelta(0)) == 0.0
    for wrong in (timedelta(hours=1), 3000, 3000.0):
        for check in (checked_timeout, _checked_seconds):
            with pytest.raises(ConfigError, match=r"at most 600 seconds, or math.inf .* not 3[06]00; it counts in"):
                check(wrong)
    with pytest.raises(ConfigError, match="seconds or a timedelta, 0 or more, not datetime"):
        checked_seconds("timeout", timedelta(seconds=-1))
    with pytest.raises(ConfigError, match="seconds or a timedelta, more than 0, not datetime"):
        checked_timeout(timedelta(0))


def _checked_seconds(value: Any) -> float:
    return checked_seconds("timeout", value)


def _group(kind: type[Any]) -> dict[str, str]:
    return {"group": "g"} if hasattr(kind, "group") else {}
