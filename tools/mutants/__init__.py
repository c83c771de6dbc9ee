"""Small changes to the library, one at a time, to see which of them the tests notice: `./dev mutants`.

The libraries that do this were looked at and left: mutmut changes only what stands inside functions and wants all
mutants of a tree, not a sample; Cosmic Ray runs one command for each mutant, whatever it changes; and pytest-gremlins
starts pytest for each. Here the tests are collected once, and each mutant is tried in a fork of that process,
with the tests alone that run its line.
"""
