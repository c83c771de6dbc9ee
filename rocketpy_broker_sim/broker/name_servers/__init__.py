"""What the broker tells its name servers, and when: registration, heartbeats, new topics."""
