"""Repairing a store: damaged parts of the log are moved aside, queues and index are built anew from the rest. Pure."""
