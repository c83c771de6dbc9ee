"""rocketpy-store: look into a store, check it, repair it. One file a command."""
