"""The command `rocketpy`: administration, sending and reading from the command line."""
