"""The names of the allocation strategies that a setting can name. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

__all__ = ["AVERAGELY", "BY_CIRCLE", "CONSISTENT_HASH", "STRATEGY_NAMES", "StrategyName"]

StrategyName: TypeAlias = Literal["averagely", "by_circle", "consistent_hash"]
STRATEGY_NAMES: tuple[StrategyName, ...] = get_args(StrategyName)
AVERAGELY, BY_CIRCLE, CONSISTENT_HASH = STRATEGY_NAMES
