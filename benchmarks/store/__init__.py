"""Measures the message store: alone, below a broker, and beside Apache's broker in the same run.

``python -m benchmarks store`` takes every figure, ``store-append`` and its like take one. Each measure brings its own
directory and its own servers, because the settings of the store are what is measured.
"""
