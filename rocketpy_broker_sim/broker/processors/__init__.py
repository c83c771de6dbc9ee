"""What the broker does with a request: plain functions (broker, connection, request) -> answer, or None for later."""
