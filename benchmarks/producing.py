"""What belongs to producers and takes long, so that one sample of it is enough: memory, and how late timers come.

A producer's memory is measured on servers that are started for it: a million messages are no load for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks import isolated, timing
from benchmarks.clients import growth
from benchmarks.measure import QUEUES, SEND_TOPIC, Ground, Measure, Row, task_of
from benchmarks.servers import OURS

if TYPE_CHECKING:
    from benchmarks.task import Outcome


def _grown(ground: Ground) -> Mapping[str, Outcome]:
    with OURS.run() as site:
        site.create_topic(SEND_TOPIC, QUEUES)
        own = replace(ground, make=OURS, site=site)
        return {growth.SHAPE.name: isolated.take(task_of(growth.SHAPE.name, own), own, growth.WITHIN)}


MEASURES = (
    Measure((Row(growth.SHAPE.name, growth.SHAPE.title, growth.SHAPE.unit),), _grown, brings=OURS, once=True),
    Measure((timing.TIMER, timing.LEVEL), timing.late, once=True),
    Measure((timing.MANY,), timing.many, once=True),
)
"""Taken only where they are asked for."""
