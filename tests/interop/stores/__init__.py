"""Stores that go from broker to broker, ours and Apache's: handed over, cleaned, looked into, repaired."""
