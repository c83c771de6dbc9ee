"""Custom headers, one module a subject, declarations only. Import the module of the subject; nothing else loads."""
