"""Judges for RAG answers: criteria, verdicts and how they combine; usable without the stream around it."""

from judges.composite import CompositeRule, compose, rag_composite
from judges.criteria import RAG_DIMENSIONS, Criterion, load_catalogue
from judges.direct import DirectJudge
from judges.evaluation import Evaluation, JudgeVerdict, Status
from judges.evaluator import Evaluator, Submission
from judges.interaction import Case, Interaction, case_of
from judges.judge import Judge
from judges.local import LocalJudge
from judges.models.openai import OpenAIModel
from judges.panel import Panel

__all__ = [
    "RAG_DIMENSIONS",
    "Case",
    "CompositeRule",
    "Criterion",
    "DirectJudge",
    "Evaluation",
    "Evaluator",
    "Interaction",
    "Judge",
    "JudgeVerdict",
    "LocalJudge",
    "OpenAIModel",
    "Panel",
    "Status",
    "Submission",
    "case_of",
    "compose",
    "load_catalogue",
    "rag_composite",
]
