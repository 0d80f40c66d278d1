"""Texts of people who mean harm, for every field that reaches the page."""

SCRIPT = "<script>window.ran = 1</script>"
IMAGE = '<img src="x" onerror="window.ran = 1">'
LINK = "javascript:window.ran=1"
SVG = "\"'><svg onload=window.ran=1>"
TEMPLATE = "${window.ran=1}{{constructor.constructor('window.ran=1')()}}"
TURNED = "\u202eright to left\u2066"
TERMINAL = "\x1b]0;title\x07\x1b[31mred"
LONG = "w" * 400

ALL = " ".join((SCRIPT, IMAGE, LINK, SVG, TEMPLATE, TURNED, TERMINAL, LONG))
"""All of them, in a field that takes long texts."""

NAME = f"{IMAGE} {LINK} {SCRIPT}"
"""For names, which must be short."""
