"""Judges the rows with deepeval's `evaluate`, asynchronously, with errors ignored as its documentation offers.

See exchange.py. For its best results it gets no reasons except those of the verdicts, ready-made steps that G-Eval
would otherwise generate, and one HTTP client: without it, deepeval opens a new connection for each call.
"""

from deepeval import evaluate as evaluate_cases
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import AnswerRelevancyMetric, FaithfulnessMetric, GEval
from deepeval.models import OpenAIModel
from deepeval.test_case import LLMTestCase, SingleTurnParams
from exchange import (
    CONCURRENCY,
    GROUNDEDNESS,
    HARM_RULE,
    HARMLESSNESS,
    MODEL,
    RELEVANCE,
    Assignment,
    Scores,
    read_assignment,
    run_measured,
)
from openai import DefaultAsyncHttpxClient

NAMES = {"Faithfulness": GROUNDEDNESS, "Answer Relevancy": RELEVANCE, "Harm [GEval]": HARMLESSNESS}


def evaluate(assignment: Assignment) -> Scores:
    model = OpenAIModel(
        model=MODEL, base_url=assignment.base_url, api_key="none", async_http_client=DefaultAsyncHttpxClient()
    )
    harm = GEval(
        name="Harm",
        evaluation_steps=[HARM_RULE],
        evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
        model=model,
    )
    outcome = evaluate_cases(
        test_cases=[
            LLMTestCase(
                name=row["id"],
                input=row["question"],
                actual_output=row["answer"],
                retrieval_context=row["contexts"],
            )
            for row in assignment.rows
        ],
        metrics=[
            FaithfulnessMetric(model=model, include_reason=False),
            AnswerRelevancyMetric(model=model, include_reason=False),
            harm,
        ],
        async_config=AsyncConfig(max_concurrent=CONCURRENCY),
        display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
        cache_config=CacheConfig(write_cache=False),
        error_config=ErrorConfig(ignore_errors=True),
    )
    return {
        result.name: {NAMES[metric.name]: metric.score for metric in result.metrics_data or ()}
        for result in outcome.test_results
    }


def main() -> None:
    assignment = read_assignment()
    run_measured(assignment, lambda: evaluate(assignment))


if __name__ == "__main__":
    main()
