"""The parts of the blocking Admin, one a file, so that each is loaded when it is used."""
