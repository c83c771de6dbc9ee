"""Calling listeners: the consume services, the crews of workers, and what is wrapped around a call."""
