"""Real servers and tools for tests. Each is a context manager and ends with the process that started it."""
