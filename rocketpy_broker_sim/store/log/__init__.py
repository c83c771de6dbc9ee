"""The commit log: its files and buffers, walking it record by record, and what stands in for lost records."""
