"""The tables of each database, and how an older gallery becomes a current one."""
