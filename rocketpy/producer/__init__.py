"""Producing messages."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rocketpy.producer.producer import Producer

if TYPE_CHECKING:
    from rocketpy.producer.transactions import TransactionProducer

__all__ = ["Producer", "TransactionProducer"]


def __getattr__(name: str) -> Any:
    if name != "TransactionProducer":
        raise AttributeError(f"module 'rocketpy.producer' has no attribute {name!r}")
    # Few programs send in transactions: the others do not load what it takes.
    return import_module("rocketpy.producer.transactions").TransactionProducer
