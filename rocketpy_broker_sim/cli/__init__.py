"""The commands of the servers: rocketpy-namesrv, rocketpy-broker, rocketpy-broker-sim."""
