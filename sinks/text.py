"""Makes untrusted text safe for a terminal and a log line; and the hint for a missing extra."""


def printable(text: str) -> str:
    """Replace characters that could control the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def shorten(text: str, chars: int) -> str:
    """Return one printable line of at most `chars` characters."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"


def explain_extra(extra: str) -> str:
    """Say how to install an optional extra, whichever installer was used."""
    return (
        f"reinstall Streamjury with the extra {extra}: '.[{extra}]' instead of '.' in the command that installed it "
        "(pip, pipx with --force, or uv)"
    )
