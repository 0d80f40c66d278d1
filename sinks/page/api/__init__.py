"""The page's HTTP API: JSON, one module for each screen."""
