"""Our client, used in the ways that are measured: one module a way. Each opens what it uses and warms it up first."""
