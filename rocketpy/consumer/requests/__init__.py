"""Requests of brokers to a running consumer: reset offsets, report its state, consume one message directly."""
