"""What keeps a sink from storing rows twice: markers of micro-batches, and the search for rows that are stored.

Each level of the setting `delivery` does what the one before does, and more:

* at-least-once: nothing here is used.
* commit-marker: when a micro-batch has been written, the driver stores a marker in a topic. If Spark runs the
  micro-batch again, nothing is sent.
* effectively-once: each task stores a marker before its first message. If there is one already, or Spark has started
  the task before, the task looks for its messages in the topics, and sends only those that are not there.

`markers` knows what a marker is, `marker_log` reads and writes them, `stored_rows` looks for messages, `away` waits for
brokers, `tasks` decides for a task, and `batches` is for the driver. A batch job is a micro-batch with the number 0 and
the `job_id` as query.
"""
