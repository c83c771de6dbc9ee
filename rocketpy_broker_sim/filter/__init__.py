"""Filters by the properties of messages: the language SQL92, and the bits that remember its verdicts. Pure."""
