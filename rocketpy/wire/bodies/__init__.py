"""JSON bodies, one module a subject, declarations mostly. Import the module of the subject; nothing else loads."""
