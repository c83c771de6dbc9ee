"""Several servers in one loop, embedded in a test or a program. `rocketpy_broker_sim` exports the classes."""
