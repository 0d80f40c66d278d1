"""Simulated RAG traffic with known faults, for demonstrations and for tests that compare verdicts with the truth.

- `generator`: writes simulated interactions to a topic at a steady rate
- `regimes`: the plan of faults, and the reproducible stream of records that follows from it
- `interaction`: makes one logged interaction from a group of the corpus
- `answers`: answers of the simulated assistant, with and without a fault
- `malformed`: bytes that are not an interaction, one kind per mistake of a producer
- `corpus`: reads the questions, passages and answers from the YAML files in `corpus/`
"""

from stream.cli.demo.corpus import Corpus, CorpusError, QuestionGroup, load_corpus
from stream.cli.demo.interaction import MODELS, TENANTS
from stream.cli.demo.malformed import Malformation
from stream.cli.demo.regimes import PLAN_NAMES, Phase, Plan, Regime, Traffic, TrafficRecord, generate, make_record, plan

# A first look should show judged and unjudged records; live traffic is larger and sampled at a lower rate.
EMBEDDED_SAMPLING_RATE = 0.5

__all__ = [
    "EMBEDDED_SAMPLING_RATE",
    "MODELS",
    "PLAN_NAMES",
    "TENANTS",
    "Corpus",
    "CorpusError",
    "Malformation",
    "Phase",
    "Plan",
    "QuestionGroup",
    "Regime",
    "Traffic",
    "TrafficRecord",
    "generate",
    "load_corpus",
    "make_record",
    "plan",
]
