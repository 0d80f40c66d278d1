"""Small results for tests: rows of any kind, with hostile texts."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Excerpt,
    JudgeVerdict,
    Safety,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
)
from sinks.reports.contents import Contents
from sinks.reports.csv_table import Formulas
from sinks.reports.results_schema import CriterionInfo, Row, RowError, Run
from sinks.reports.summary import Summariser

INFO = EvaluatorInfo(fingerprint="f00d", criteria=("groundedness", "completeness"), judges=("one", "two"), version="1")
LEVELS = (("none", 0.0), ("some", 1.0), ("all", 2.0))

NASTY = (
    "<script>alert(1)</script>",
    "</style></script></title></textarea><img src=x onerror=alert(1)>",
    "\"><svg/onload=alert(1)>' onmouseover='x",
    "<!-- --> <![CDATA[ ]]> <?php ?> &lt;b&gt; &#60; &amp",
    "```\n# not a heading\n````\n- no list\n~~~~\n",
    "| a | b |\n| --- | --- |\n| c \\| d | \\\\| e |",
    "# heading\n> quote\n1. one\n***\n---\n===\n<details>",
    "[link](javascript:alert(1)) ![image](http://example.com/x.png) [ref]: http://example.com <http://example.com>",
    "https://example.com www.example.com a@example.com **bold** _it_ ~~gone~~ $x$ $$y$$ `code` \\` \\",
    '=HYPERLINK("http://example.com")',
    "+1+1",
    "@SUM(A1)",
    "\t=1",
    "a\r\nb\rc\nd\x00e\x1b[31mf\u2028g\u202eh\ufffei",
    'a "quoted" one, with; separators\t',
    "{{ 7*7 }} {% raw %} {# gone #} {{ ''.__class__ }} ${7*7} %s %(x)s {0}",
    "javascript:alert(1)",
    "\u202eright to left\u2066 isolated\u200f\u061c\u2069",
    " ",
)
hostile = st.one_of(st.sampled_from(NASTY), st.text(max_size=60), st.lists(st.sampled_from(NASTY)).map("".join))


def criterion(name: str, **more: Any) -> CriterionInfo:
    basis: dict[str, Any] = {"title": name.capitalize(), "question": "Is it?", "weight": 1.0, "bounds": (0.0, 2.0)}
    return CriterionInfo(**{"name": name, **basis, "choices": LEVELS, **more})


def run(**more: Any) -> Run:
    basis: dict[str, Any] = {
        "name": "file.csv",
        "started_at": datetime(2026, 11, 15, tzinfo=UTC),
        "evaluator": INFO,
        "criteria": (criterion("groundedness"), criterion("completeness")),
        "parameters": {"seed": 1},
    }
    return Run(**{**basis, **more})


def verdict(judge: str, level: int | None, **more: Any) -> JudgeVerdict:
    basis: dict[str, Any] = {"status": Status.INSUFFICIENT if level is None else Status.SCORED, "level": level}
    if level is not None:
        basis |= {"score": level / 2, "value": float(level), "option": LEVELS[level][0]}
    return JudgeVerdict(**{"judge": judge, "samples": Samples(requested=1), **basis, **more})


def dimension(*verdicts: JudgeVerdict, **more: Any) -> Dimension:
    """Return the findings of several judges, scored by their mean."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    mean = sum(scores) / len(scores) if scores else None
    level = None if mean is None else int(mean * 2)
    basis: dict[str, Any] = {"status": Status.INSUFFICIENT if mean is None else Status.SCORED, "score": mean}
    basis |= {"level": level, "value": None if mean is None else mean * 2}
    return Dimension(**{**basis, "judges": verdicts, **more})


def evaluation(
    composite: float | None,
    dimensions: Mapping[str, Dimension] | None = None,
    *,
    probability: float = 1.0,
    status: CompositeStatus | None = None,
    safety: SafetyStatus = SafetyStatus.SAFE,
    **more: Any,
) -> Evaluation:
    default_status = CompositeStatus.SAFETY_UNKNOWN if composite is None else CompositeStatus.OK
    basis: dict[str, Any] = {
        "evaluation_id": "e",
        "interaction_id": "i",
        "evaluator": INFO,
        "sampling": Sampling(probability=probability),
        "evaluated_at": datetime(2026, 11, 15, tzinfo=UTC),
        "dimensions": dimensions or {},
        "composite": Composite(
            score=composite, status=status or default_status, coverage=1.0, safety=Safety(status=safety)
        ),
    }
    return Evaluation(**{**basis, **more})


def row(number: int, composite: float | None = 1.0, **more: Any) -> Row:
    source = more.pop("source", {"question": "Why?", "answer": "Because."})
    return Row(row=number, source=source, evaluation=evaluation(composite, **more))


def saying(text: str, *, number: int = 1) -> Row:
    """Return a row in which every text field is this text."""
    texts = {"explanation": text, "feedback": text, "detail": text}
    both = dimension(verdict("one", 1, **texts), verdict("two", None, **texts), detail=text)
    alone = dimension(verdict("one", 0, **texts))
    return row(
        number,
        0.25,
        dimensions={"groundedness": both, "completeness": alone},
        interaction_id=text,
        source={"question": text, "answer": text, "other": text, f"key {text}": [text]},
    )


def contents_saying(text: str) -> tuple[Contents, Sequence[Row]]:
    """Return the contents of a document with this text in every field from outside: judged, named or rejected."""
    return contents_with(lambda _field: text)


def contents_with(text_of: Callable[[str], str]) -> tuple[Contents, Sequence[Row]]:
    """Return the same contents with a text made from the name of each field."""
    info = EvaluatorInfo(
        fingerprint=text_of("fingerprint"),
        criteria=("groundedness",),
        judges=(text_of("evaluator's judge"),),
        version=text_of("version"),
    )
    about = run(
        name=text_of("run"),
        input_digest=text_of("digest"),
        evaluator=info,
        criteria=(
            criterion(
                "groundedness",
                title=text_of("title"),
                question=text_of("criterion's question"),
                choices=((text_of("choice"), 0.0), *LEVELS[1:]),
            ),
            criterion("completeness", title=text_of("second title")),
        ),
        parameters={f"parameter {text_of('parameter')}": text_of("setting")},
    )
    rows = (_make_judged_row(text_of), _make_excerpt_row(text_of), _make_refused_row(text_of))
    return contents_of(about, *rows), rows


def _make_judged_row(text_of: Callable[[str], str]) -> Row:
    first = {name: text_of(name) for name in ("explanation", "feedback", "detail", "judge")}
    second = {name: text_of(f"second {name}") for name in ("detail", "judge")}
    panel = (verdict(level=0, **first), verdict(level=None, **second))
    return row(
        1,
        0.25,
        dimensions={
            "groundedness": dimension(*panel, level=0, value=0.0, score=0.0, detail=text_of("panel's detail")),
            text_of("unknown dimension"): dimension(verdict("one", 1, explanation=text_of("single explanation"))),
        },
        interaction_id=text_of("id"),
        source={
            "question": text_of("question"),
            "answer": text_of("answer"),
            "other": text_of("field"),
            f"key {text_of('key')}": [text_of("list")],
        },
    )


def _make_excerpt_row(text_of: Callable[[str], str]) -> Row:
    """Return a row whose texts are known only from the evaluation."""
    excerpt = Excerpt(question=text_of("excerpt's question"), answer=text_of("excerpt's answer"))
    return row(2, None, source={}, excerpt=excerpt)


def _make_refused_row(text_of: Callable[[str], str]) -> Row:
    error = RowError(kind=text_of("kind"), message=text_of("message"))
    return Row(row=3, source={"question": text_of("refused question")}, error=error)


def contents_of(about: Run, *rows: Row, **more: Any) -> Contents:
    summariser = Summariser(about)
    for row in rows:
        summariser.add(row)
    basis: dict[str, Any] = {"end": None, "formulas": Formulas(), "listed": len(rows)}
    return Contents(run=about, summary=summariser.result(), **{**basis, **more})
