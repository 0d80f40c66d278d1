"""Real parts that tests run against, each a context manager that ends with the process that started it."""
