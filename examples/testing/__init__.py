"""A service and its tests, as docs/howto/test-your-service.md shows them."""
