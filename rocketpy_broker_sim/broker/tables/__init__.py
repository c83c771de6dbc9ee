"""What a broker knows: topics, groups, offsets and connected clients. State only: the rules
of requests stand elsewhere.

Nothing here waits: tables are plain objects of the broker's one thread. Those that survive a restart are kept by
`persist`.
"""
