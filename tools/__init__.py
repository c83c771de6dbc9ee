"""What `dev` is made of, one idea a file. Standard library only: it runs before anything is installed."""
