"""Makes untrusted text safe for a terminal and a log line."""


def printable(text: str) -> str:
    """Nothing in it may steer the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def shortened(text: str, chars: int) -> str:
    """One printable line of at most so many characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"
