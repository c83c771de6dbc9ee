"""What `dev` does at some length, one idea a file. Standard library only, as `dev` itself."""
