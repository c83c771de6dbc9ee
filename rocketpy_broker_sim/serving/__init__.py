"""What broker and name server share in serving requests: work in slices."""
