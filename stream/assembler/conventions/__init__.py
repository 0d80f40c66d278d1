"""Conventions for the attributes of spans: each reads its own into the same parts of an interaction.

- `base`: the contract of a convention, and the parts
- `gen_ai`: OpenTelemetry GenAI
- `openinference`: OpenInference
- `openllmetry`: OpenLLMetry
- `texts`: finds the question, the answer and messages in values of many shapes
"""

from collections.abc import Mapping

from stream.assembler.conventions.base import SpanConvention
from stream.assembler.conventions.gen_ai import GenAi
from stream.assembler.conventions.openinference import OpenInference
from stream.assembler.conventions.openllmetry import OpenLlmetry

CONVENTIONS: Mapping[str, SpanConvention] = {
    "gen_ai": GenAi(),
    "openinference": OpenInference(),
    "openllmetry": OpenLlmetry(),
}
"""All conventions by their name in the configuration."""
