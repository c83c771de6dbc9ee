"""What `dev` asks of the machine, one idea a file. Standard library only: it runs before anything is installed."""
