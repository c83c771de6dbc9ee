"""What the calls of Admin return: plain values with units, nothing that acts. Pure."""
