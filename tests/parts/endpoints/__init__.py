"""Endpoints on real sockets that behave, or misbehave, as a test says."""
