"""Which queues a member of the group has: allocation, rebalancing, and what happens to queues that come and go."""
