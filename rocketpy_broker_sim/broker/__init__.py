"""The broker: takes messages, keeps them, gives them to consumers."""
