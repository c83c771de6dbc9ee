"""Repairing a store: damaged parts of the log are moved aside, queues and index are rebuilt from the rest. Pure."""
