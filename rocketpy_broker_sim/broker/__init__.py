"""The broker: takes messages, keeps them, gives them to consumers. Open one with `opening.open_broker`."""
