"""What broker and name server share in serving requests: work in slices, bodies in steps, a memory budget."""
