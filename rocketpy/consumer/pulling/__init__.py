"""Pulling: the task of each assigned queue, what these tasks share, and how kinds of consumers differ in it."""
