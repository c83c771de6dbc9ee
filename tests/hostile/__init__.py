"""What peers, faults and clocks can do to servers: real processes, an innocent pair of connections, an attacker."""
