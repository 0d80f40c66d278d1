"""The project's pages, their shell blocks, and a terminal to type them into."""
