"""What every role shares: the client instance, routes, heartbeats, and one function for each remote operation."""
