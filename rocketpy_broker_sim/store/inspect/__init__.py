"""Looking into a store without opening it: what the command rocketpy-store shows, checks and repairs. Pure."""
