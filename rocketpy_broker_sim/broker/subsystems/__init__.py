"""The parts of a broker, each a `Subsystem`."""
