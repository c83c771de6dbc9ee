"""Messages with a delay level: the stage that parks them, and the service that delivers them."""
