"""Power losses, simulated: `python -m tests.crash --points 10000 --seed 1`.

A workload runs once on a disk that keeps a journal of its operations and knows what has reached it. From the journal
come thousands of disks as a power loss could leave them; the store is opened on each, and `tests.checker` judges.
"""
