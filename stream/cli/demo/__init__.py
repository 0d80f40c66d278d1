"""Invented RAG traffic with known faults, for demonstrations and for tests that compare verdicts with the truth."""

from stream.cli.demo.corpus import Corpus, CorpusError, QuestionGroup, load_corpus
from stream.cli.demo.interaction import MODELS, TENANTS
from stream.cli.demo.malformed import Malformation
from stream.cli.demo.regimes import PLAN_NAMES, Phase, Plan, Regime, Traffic, TrafficRecord, generate, make_record, plan

__all__ = [
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
