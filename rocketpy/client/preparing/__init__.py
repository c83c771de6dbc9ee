"""Messages made ready to send: checked, encoded, compressed, put into batches."""
