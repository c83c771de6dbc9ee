"""What stands behind the Storage seam, and the rows of equally large files that are kept on it."""
