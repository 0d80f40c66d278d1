"""Judges for RAG answers: criteria, verdicts and how they combine; usable without the stream around it.

- `judge`: the contract of a judge
- `evaluator`: puts every criterion to the panel and composes one evaluation of one interaction
- `composite`: combines criteria into one score and one status, which a safety failure overrides
- `criteria`: criteria with their questions and scales, and the shipped catalogues
- `panel`: several judges on one criterion, whose verdicts become one
- `llm`: judges that ask a language model
- `local`: the local judge, which uses rules instead of a model
- `encoder`: trained ONNX classifiers as judges
- `models`: clients for chat models, with flow control, redaction and prices
- `cache`: a judge that returns its earlier verdict on the same texts
- `runtime`: runs judges: conditions, batches, and calls from synchronous code
- `values`: values that pass between judges and their callers
- `shortfall`: reasons for a missing score
- `scripted`: a judge with scripted verdicts, for tests
"""

from judges.composite import Item, MultiCriteria, MultiResult, rag_composite
from judges.criteria.catalogue import CriteriaError, find_criterion, load_catalogue, load_criteria
from judges.criteria.criterion import RAG_DIMENSIONS, Criterion
from judges.encoder import EncoderJudge
from judges.evaluator import Evaluator, Submission
from judges.judge import Judge
from judges.llm.methods.aspect import AspectCritic, QualitativeCriterion, QuantitativeCriterion
from judges.llm.methods.direct import DirectJudge
from judges.llm.methods.guardian import GuardianJudge
from judges.llm.methods.rubric import RelativeRubricJudge, RubricJudge
from judges.llm.methods.sentences import SentencesJudge
from judges.llm.methods.two_step import TwoStepJudge
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
    "EncoderJudge",
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
    "SentencesJudge",
    "Status",
    "Submission",
    "TwoStepJudge",
    "case_of",
    "find_criterion",
    "load_catalogue",
    "load_criteria",
    "rag_composite",
]
