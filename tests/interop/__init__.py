"""Apache RocketMQ beside our own: the harness and the tests that let the two talk to each other."""
