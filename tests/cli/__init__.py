"""The command `rocketpy`."""
