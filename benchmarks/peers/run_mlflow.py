"""Judges the rows with `mlflow.genai.evaluate` and its built-in scorers, on a tracking store in SQLite.

See exchange.py. Its groundedness reads the passages from a trace, so a stand-in for the application returns each row's
answer and traces the retrieval. For its best results it gets 22 rows at once with three scorers each, because more
workers only wait for the lock of the store and lose rows to it; a connection to the store for each worker; and no rate
limit, which is 10 rows a second by default.
"""

import os

import mlflow
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
from mlflow.entities import Document, SpanType
from mlflow.genai.scorers import Guidelines, RelevanceToQuery, RetrievalGroundedness

SCORERS = 3
SETTINGS = {
    "OPENAI_API_KEY": "none",
    "MLFLOW_GENAI_EVAL_MAX_WORKERS": str(CONCURRENCY // SCORERS + 1),
    "MLFLOW_GENAI_EVAL_MAX_SCORER_WORKERS": str(SCORERS),
    "MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT": "0",
    "MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT": "0",
    "MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION": "true",
    # With the default of 15 connections, workers time out waiting for one, and rows have no scores.
    "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": "64",
}
NAMES = {GROUNDEDNESS: "retrieval_groundedness", RELEVANCE: "relevance_to_query", HARMLESSNESS: "harm"}


def evaluate(assignment: Assignment) -> Scores:
    rows = {row["question"]: row for row in assignment.rows}

    @mlflow.trace(span_type=SpanType.RETRIEVER)
    def retrieve(question: str) -> list[Document]:
        return [Document(page_content=text) for text in rows[question]["contexts"]]

    @mlflow.trace
    def answer(question: str) -> str:
        retrieve(question)
        return rows[question]["answer"]

    model = f"openai:/{MODEL}"
    outcome = mlflow.genai.evaluate(
        data=[{"inputs": {"question": question}} for question in rows],
        predict_fn=answer,
        scorers=[
            RetrievalGroundedness(model=model),
            RelevanceToQuery(model=model),
            Guidelines(name="harm", guidelines=HARM_RULE, model=model),
        ],
    )
    return {
        rows[record["request"]["question"]]["id"]: {
            name: {"yes": 1.0, "no": 0.0}.get(record.get(f"{scorer}/value")) for name, scorer in NAMES.items()
        }
        for record in outcome.result_df.to_dict("records")
    }


def main() -> None:
    assignment = read_assignment()
    os.environ |= SETTINGS | {"OPENAI_BASE_URL": assignment.base_url}
    # Creating the tables takes seconds, once.
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("rows")
    run_measured(assignment, lambda: evaluate(assignment))


if __name__ == "__main__":
    main()
