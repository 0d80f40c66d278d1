"""The project's pages, their shell blocks, and a terminal to run them in."""
