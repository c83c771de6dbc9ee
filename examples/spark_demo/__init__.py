"""Spark and RocketMQ in one program: sends real rows through a sink, and compares the totals of both sides."""
