"""The messages that commands print, send and measure."""
