"""Consuming: the push consumer and its parts, each an idea of its own."""

from __future__ import annotations

from rocketpy.consumer.push import PushConsumer

__all__ = ["PushConsumer"]
