"""One send of any kind, from the choice of its queue to its result: attempts, drivers, and the order of keys."""
