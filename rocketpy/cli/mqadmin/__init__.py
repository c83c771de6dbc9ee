"""The command names and options of Apache's mqadmin, for people who know them."""
