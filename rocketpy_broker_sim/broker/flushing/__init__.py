"""Bringing messages to the disk: who asks for it and when, where it runs, and what waits for it."""
