"""Custom headers that no code here uses yet, one module a subject, declarations only."""
