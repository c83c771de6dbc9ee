"""The message store: commit log, consume queues and what recovers them, in Apache's format. Plain synchronous code.

Services with timers and threads stand around it, in `rocketpy_broker_sim.broker`.
"""
