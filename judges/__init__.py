"""Judges for RAG answers: criteria, verdicts and how they combine; usable without the stream around it."""

from judges.composite import Item, MultiCriteria, MultiResult, rag_composite
from judges.criteria.catalogue import CriteriaError, find_criterion, load_catalogue, load_criteria
from judges.criteria.criterion import RAG_DIMENSIONS, Criterion
from judges.evaluator import Evaluator, Submission
from judges.judge import Judge
from judges.llm.methods.aspect import AspectCritic, QualitativeCriterion, QuantitativeCriterion
from judges.llm.methods.direct import DirectJudge
from judges.llm.methods.guardian import GuardianJudge
from judges.llm.methods.rubric import RelativeRubricJudge, RubricJudge
from judges.llm.pairwise.comparison import Comparison
from judges.llm.pairwise.pairwise import PairwiseJudge
from judges.local import LocalJudge
from judges.models.providers import AnthropicModel, OllamaModel, OpenAIModel
from judges.panel import Panel
from judges.panel.cascade import Cascade
from judges.scripted import ScriptedJudge
from judges.values.evaluation import Dimension, Evaluation, JudgeVerdict, Status
from judges.values.interaction import Case, Interaction, case_of

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
