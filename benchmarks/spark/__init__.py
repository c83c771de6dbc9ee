"""The Spark sink: rows a second out of DataFrames and RDDs, beside the same loops that send nothing.

The modules whose names begin with `pipeline` measure the format: reads beside a generator that needs no broker, writes
beside the sink, and streaming queries.

Spark runs in a process of its own with two local workers, our name server and broker in two others, new for each
round. Memory and CPU of all of them come from the kernel, so that nothing measured has to measure itself.
"""
