"""One async function for each remote operation, typed in and out, grouped by subject.

They share no state but the pool of connections. The caller decides which broker to ask and what to do about an error.
Together they play the part of MQClientAPIImpl.
"""
