"""One async function for each remote operation, typed in and out, grouped by subject.

They share no state but the pool of connections; where a topic lives and what to do about an error is decided by whoever
calls. Together they play the part of MQClientAPIImpl.
"""
