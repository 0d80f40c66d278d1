"""Judges for RAG answers: criteria, verdicts and how they combine; usable without the stream around it."""

from judges.aspect import AspectCritic, QualitativeCriterion, QuantitativeCriterion
from judges.cascade import Cascade
from judges.catalogue import CriteriaError, find_criterion, load_catalogue, load_criteria
from judges.comparison import Comparison
from judges.composite import Item, MultiCriteria, MultiResult, rag_composite
from judges.criteria import RAG_DIMENSIONS, Criterion
from judges.direct import DirectJudge
from judges.evaluation import Dimension, Evaluation, JudgeVerdict, Status
from judges.evaluator import Evaluator, Submission
from judges.guardian import GuardianJudge
from judges.interaction import Case, Interaction, case_of
from judges.judge import Judge
from judges.local import LocalJudge
from judges.models.openai import OpenAIModel
from judges.pairwise import PairwiseJudge
from judges.panel import Panel
from judges.rubric import RelativeRubricJudge, RubricJudge
from judges.scripted import ScriptedJudge

__all__ = [
    "RAG_DIMENSIONS",
    "AspectCritic",
    "Cascade",
    "Case",
    "Comparison",
    "CriteriaError",
    "Criterion",
    "Dimension",
    "DirectJudge",
    "Evaluation",
    "Evaluator",
    "GuardianJudge",
    "Interaction",
    "Item",
    "Judge",
    "JudgeVerdict",
    "LocalJudge",
    "MultiCriteria",
    "MultiResult",
    "OpenAIModel",
    "PairwiseJudge",
    "Panel",
    "QualitativeCriterion",
    "QuantitativeCriterion",
    "RelativeRubricJudge",
    "RubricJudge",
    "ScriptedJudge",
    "Status",
    "Submission",
    "case_of",
    "find_criterion",
    "load_catalogue",
    "load_criteria",
    "rag_composite",
]
