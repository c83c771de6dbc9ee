"""Consuming: the push consumer and its parts, each an idea of its own."""
