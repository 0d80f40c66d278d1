"""HTML from elements: text is escaped unless it is markup already, so that no judged text becomes part of the page."""

import html
import re

# Not allowed in HTML, even as references; what a judged text has of them is shown as one sign.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LINE_END = re.compile("\r\n?")
_VOID = frozenset({"meta", "input", "br"})


class Markup(str):
    """Text that is HTML, made by this module alone."""

    __slots__ = ()


def visible(text: str) -> str:
    """The text without characters that documents cannot hold; its lines end in one way."""
    return _UNSHOWABLE.sub("\ufffd", _LINE_END.sub("\n", text))


def escaped(text: str) -> Markup:
    return text if isinstance(text, Markup) else Markup(html.escape(visible(text), quote=True))


def joined(*parts: str) -> Markup:
    return Markup("".join(map(escaped, parts)))


def opening(tag: str, /, **attributes: str | bool | None) -> Markup:
    """The start of an element; `class_` is class, `aria_label` is aria-label, and what is None or False is left out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    return Markup(f"<{tag}{written}>")


def closing(tag: str) -> Markup:
    return Markup(f"</{tag}>")


def element(tag: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """An element with these children."""
    if tag in _VOID:
        return opening(tag, **attributes)
    return Markup(f"{opening(tag, **attributes)}{joined(*children)}</{tag}>")


def _attribute(key: str, value: str | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(str(value))}"'
