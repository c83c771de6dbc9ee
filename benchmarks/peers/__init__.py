"""Clients of other makes, driven in processes of their own: Apache's Java client, and `ali-ons` for JavaScript.

Each driver reads one task a line and answers with one line; `peer` is the Python end of that, `work` lists what they
are given to do, `java` and `javascript` say how each is had.
"""
