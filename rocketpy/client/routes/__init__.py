"""Routes: which brokers have which queues of a topic, and the errors when nobody knows."""
