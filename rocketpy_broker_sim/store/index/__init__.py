"""The key index: messages found by key or unique id."""
