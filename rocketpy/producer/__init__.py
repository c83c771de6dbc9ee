"""Producing messages."""

from __future__ import annotations

from rocketpy.producer.producer import Producer

__all__ = ["Producer"]
