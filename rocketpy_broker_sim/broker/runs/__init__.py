"""Sends, and commits, that arrived together and are carried out together."""
