"""Settings of clients: frozen, checked once when they are made, passed whole. They pickle; clients do not.

Every field says in its metadata which setting of Java it is (`java`, None for one of our own) and by how much the unit
differs (`scale`): Java counts in milliseconds, we count in seconds. Change a config with `attrs.evolve`. Plays the part
of ClientConfig and of the fields of DefaultMQProducer and DefaultMQPushConsumer.
"""

from __future__ import annotations

from rocketpy.config.client import ClientConfig, parse_addresses
from rocketpy.config.latency import LatencyTable
from rocketpy.config.producer import ProducerConfig
from rocketpy.config.push_consumer import PushConsumerConfig

__all__ = ["ClientConfig", "LatencyTable", "ProducerConfig", "PushConsumerConfig", "parse_addresses"]
