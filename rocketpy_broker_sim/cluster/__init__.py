"""Several servers in one loop, embedded in whatever needs them. The classes are exported by `rocketpy_broker_sim`."""
