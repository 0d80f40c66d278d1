"""Endpoints on real sockets that work or fail as a test asks."""
