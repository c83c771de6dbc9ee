"""Work on the files of the store in the background: allocating, deleting, and catching up with the index."""
