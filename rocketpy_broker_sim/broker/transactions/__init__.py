"""Transactions: half messages, how they end, and asking producers about those that do not."""
