"""The locks on queues that an orderly consumer holds, waits for, or is refused."""
