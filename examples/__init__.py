"""Programs that run as they stand: `python -m examples.quickstart_producer`."""
