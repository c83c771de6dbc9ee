"""Consume queues: their units, the extension of those, and the table of all queues of a store."""
