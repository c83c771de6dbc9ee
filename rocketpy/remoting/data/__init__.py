"""Data connections: sends of threads and of asyncio loops that do not pass through the portal.

What a client does in the background (routes, heartbeats, consuming, dialling, trying again) stays in its trio loop. A
message of somebody outside of it takes the shortest way instead: encoded and written by whoever sends it, over a
connection of its own, and completed by whoever reads the answer.
"""
