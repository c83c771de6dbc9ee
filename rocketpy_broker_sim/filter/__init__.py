"""Filters by message properties: SQL92 expressions, and the Bloom filter that remembers their results. Pure."""
