"""The stages that lead a message into the store, and what they share."""
