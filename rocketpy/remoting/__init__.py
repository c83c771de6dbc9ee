"""Frames over trio streams, for clients and servers alike: network, connections, pool, server.

This is the layer that owns sockets and translates their errors. It knows requests and answers, and nothing of what
they ask for. Plays the part of NettyRemotingAbstract and what stands around it.
"""
