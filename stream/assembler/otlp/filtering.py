"""Which attributes of a span are kept, which events, and which traces."""

from collections.abc import Callable

from stream.assembler.conventions import CONVENTIONS
from stream.assembler.conventions.gen_ai import OPERATION, OPERATIONS_OF_LLM
from stream.assembler.conventions.openinference import INPUT, KIND, OUTPUT
from stream.config.sections.otlp import OtlpConfig
from stream.config.sections.sampling import SamplingConfig
from stream.records.decision import Cohort

# Names come from outside; without a limit they could fill the memory.
_NAMES_CACHED = 10_000


class _KeptNames(dict[str, bool]):
    """Whether attributes are kept, by name: one lookup for each name that was seen before."""

    def __init__(self, exact: frozenset[str], prefixes: tuple[str, ...]) -> None:
        super().__init__()
        self._exact, self._prefixes = exact, prefixes

    def __missing__(self, name: str) -> bool:
        if len(self) >= _NAMES_CACHED:
            self.clear()
        kept = self[name] = name in self._exact or name.startswith(self._prefixes)
        return kept


class AttributeFilter:
    """Chooses attributes and events by name."""

    def __init__(self, config: OtlpConfig) -> None:
        conventions = [CONVENTIONS[name] for name in config.conventions]
        exact = frozenset().union(*(convention.attributes for convention in conventions))
        prefixes = tuple(prefix for convention in conventions for prefix in convention.prefixes)
        if config.attributes.history is not None:  # it may be numbered
            prefixes += (f"{config.attributes.history}.",)
        events = frozenset().union(*(convention.events for convention in conventions))
        self.keeps: Callable[[str], bool] = _KeptNames(exact | config.attributes.names, prefixes).__getitem__
        """Returns whether an attribute is kept."""
        self.keeps_resource: Callable[[str], bool] = config.attributes.names.__contains__
        """Returns whether an attribute of a resource is kept."""
        self.keeps_event: Callable[[str], bool] = events.__contains__
        """Returns whether an event is kept."""


def drop_prompts(attributes: dict[str, object]) -> None:
    """Drop the raw input and output of an LLM span that is not the root: its messages say the same."""
    if attributes.get(KIND) == "LLM" or attributes.get(OPERATION) in OPERATIONS_OF_LLM:
        has_raw = INPUT in attributes or OUTPUT in attributes
        if has_raw and any(name.startswith("llm.output_messages.") for name in attributes):
            attributes.pop(INPUT, None)
            attributes.pop(OUTPUT, None)
        if "gen_ai.output.messages" in attributes:
            attributes.pop("traceloop.entity.input", None)
            attributes.pop("traceloop.entity.output", None)


def trace_filter(sampling: SamplingConfig) -> Callable[[bytes], bool] | None:
    """Return a function that tells by its id whether the sampler may choose a trace; None if it may choose any.

    It has the id as bytes. The id of an interaction is the id of its trace, as hexadecimal digits.
    """
    rate = sampling.highest_rate
    if rate >= 1.0:
        return None
    chooses = Cohort(sampling.salt).chooser(rate)
    return lambda trace_id: chooses(trace_id.hex().encode())
