"""What a broker measures: the metrics, and the functions that make the samples of a scrape."""
