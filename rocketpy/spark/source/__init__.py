"""The reading half of ``format("rocketmq")``: batch reads and streams through the Python Data Source API of Spark.

Options become values (`names`, `positions`, `options`, `shape`), values and the queues that there are become ranges
(`topics`, `brokers`, `resolving`, `planning`), and a task reads a range into record batches (`pulling`, `progress`,
`reading`, `arrow`). Only `spark_classes` knows PySpark, only `arrow` and `values` know pyarrow.
"""

from __future__ import annotations
