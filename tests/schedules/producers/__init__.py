"""Producers under churn, in virtual time: they send in every way while brokers, links and clocks fail and they die.

As in `tests.schedules`, a seed makes a schedule (`plan`), it runs on a cluster in memory (`run`) and leaves a history
(`history`), which is judged by the promises (`judge`). ``python -m tests.schedules --producers --count 200`` runs many.
"""
