"""Spark and RocketMQ in one program: real rows through a sink, totals of both ends side by side."""
