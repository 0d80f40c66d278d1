"""Invented RAG traffic with known faults, for demonstrations and for tests that compare verdicts with the truth."""

from stream.traffic.corpus import Corpus, CorpusError, Group, load_corpus
from stream.traffic.interaction import MODELS, TENANTS
from stream.traffic.malformed import Malformation
from stream.traffic.regimes import PLAN_NAMES, Phase, Plan, Regime, Traffic, TrafficRecord, generate, make_record, plan

__all__ = [
    "MODELS",
    "PLAN_NAMES",
    "TENANTS",
    "Corpus",
    "CorpusError",
    "Group",
    "Malformation",
    "Phase",
    "Plan",
    "Regime",
    "Traffic",
    "TrafficRecord",
    "generate",
    "load_corpus",
    "make_record",
    "plan",
]
