"""The writing half of ``format("rocketmq")``: batch writes and streams through the Python Data Source API of Spark.

Options and the schema of the frame become the settings of a sink (`names`, `options`, `schema`), and a task writes its
rows as `rocketpy.spark.sink` does (`writing`). Only `spark_classes` knows PySpark, only `arrow_rows` knows pyarrow.
"""

from __future__ import annotations
