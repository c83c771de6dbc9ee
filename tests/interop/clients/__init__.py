"""Clients of other languages as processes: C++, JavaScript and Go, each with a driver of ours around it.

`wheels` brings what PyPI has for a language, `cpp`, `javascript` and `golang` say how each client is had (or why it
cannot be had here), `client` starts their drivers, which all take the same options and print the same events.
"""
