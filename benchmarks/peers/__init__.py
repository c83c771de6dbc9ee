"""Other clients, driven in processes of their own: Apache's Java client, and `ali-ons` for JavaScript.

Each driver reads a task per line and answers with one line. `peer` is the Python side of that, `work` lists the tasks,
and `java` and `javascript` install the clients.
"""
