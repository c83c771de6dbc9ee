"""Groups of consumers under churn, in virtual time: members come and go, brokers and links fail, and all of it heals.

A seed makes a schedule (`plan`), a schedule runs on a cluster in memory (`run`) and leaves a history (`history`), and
the history is judged by the promises (`judge`). ``python -m tests.schedules --count 200 --seed 1`` runs many.
"""
