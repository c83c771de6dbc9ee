"""Filters by properties: those of all groups, their compiled expressions, and bit maps."""
