"""The metrics of a server, and the port on which Prometheus and probes ask for them. Needs the extra `prometheus`."""
