"""Makes untrusted text safe for a terminal and a log line."""


def printable(text: str) -> str:
    """Replace characters that could control the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def shorten(text: str, chars: int) -> str:
    """Return one printable line of at most `chars` characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"
