"""Requests of the broker to its clients: questions, notifications, and replies."""
