"""Messages that are due at a moment of their own: the wheel, the log behind it, the checkpoint, and their recovery."""
