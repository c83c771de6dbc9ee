"""Requests that wait in the broker, which are pulls: the table of them, and why each wait ends."""
