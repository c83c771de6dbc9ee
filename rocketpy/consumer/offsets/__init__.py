"""Offsets: where they are kept, where a queue starts, and what brokers say of them."""
