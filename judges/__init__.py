"""Judges for RAG answers: criteria, verdicts and how they combine; usable without the stream around it."""

from judges.catalogue import CriteriaError, find_criterion, load_catalogue, load_criteria
from judges.composite import Item, MultiCriteria, MultiResult, rag_composite
from judges.criteria import RAG_DIMENSIONS, Criterion
from judges.evaluation import Dimension, Evaluation, JudgeVerdict, Status
from judges.evaluator import Evaluator, Submission
from judges.interaction import Case, Interaction, case_of
from judges.judge import Judge
from judges.llm.aspect import AspectCritic, QualitativeCriterion, QuantitativeCriterion
from judges.llm.comparison import Comparison
from judges.llm.direct import DirectJudge
from judges.llm.guardian import GuardianJudge
from judges.llm.pairwise import PairwiseJudge
from judges.llm.rubric import RelativeRubricJudge, RubricJudge
from judges.local import LocalJudge
from judges.models.anthropic import AnthropicModel
from judges.models.ollama import OllamaModel
from judges.models.openai import OpenAIModel
from judges.panel import Panel
from judges.panel.cascade import Cascade
from judges.scripted import ScriptedJudge

__all__ = [
    "RAG_DIMENSIONS",
    "AnthropicModel",
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
    "OllamaModel",
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
