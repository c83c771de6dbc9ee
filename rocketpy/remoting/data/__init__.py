"""Data connections: sends of threads and of asyncio loops that do not pass through the portal.

What a client does in the background (routes, heartbeats, consuming, dialling, trying again) stays in its trio loop. A
message from outside of it takes the shortest way instead: its sender encodes and writes it, over a connection made for
such sends, and the thread or loop that reads the answer completes it.
"""
