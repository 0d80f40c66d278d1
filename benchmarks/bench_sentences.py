"""Measures groundedness by one model with `method: direct` and with `method: sentences`, against labels by people.

Both methods judge the same answers, with their default settings, on a llama.cpp server. An answer is an alarm if its
level is below the best one. An answer without a score (no verdict, or no claim to judge) is no alarm. The table also
has the share of unsupported or contradicted sentences as a score, which is finer than three levels.

The answers are chosen at random, with a fixed seed. Seconds per record are measured apart from that, on a few of them:
each prompt follows a prompt about another record, so that the server reads all of it.

The answers are not in this repository: see benchmarks/labelled_answers.py for the formats. Without `--labels` the
demo's answers are used, and without `--model` the small model that `make llm-local` installs. With `--resume`, verdicts
are stored in a file, and verdicts that are in it are not asked for again. If a run was interrupted, `--stored` shows
the figures of the answers that have both verdicts. With `--url`, a server is asked that runs already, such as a
llama.cpp that was compiled for this processor, which reads a prompt many times faster than the one of the packages.

    PYTHONPATH=. .venv/bin/python benchmarks/bench_sentences.py --labels answers.jsonl --model model.gguf --threads 2 \\
        --resume verdicts.jsonl
    PYTHONPATH=. .venv/bin/python benchmarks/bench_sentences.py --short
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser, skip_without
from benchmarks.labelled_answers import CRITERION, LabelledAnswer, read_answers
from judges import DirectJudge, Interaction, Judge, OpenAIModel, SentencesJudge
from judges.criteria.catalogue import load_catalogue
from judges.values.evaluation import JudgeVerdict, Reason, Status
from judges.values.interaction import Case, Context, case_of
from judges.values.spans import SpanVerdict
from stream.jobs.compare.detection import Ranged, detect
from tests.parts.llama import MODEL, LlamaServer, why_unavailable

ANSWERS, SHORT_ANSWERS = 100, 1
TIMED, SHORT_TIMED = 8, 0
SEED = 22
# A slow machine is no reason for a missing verdict.
SECONDS = 3600.0
SUPPORTED = 1.0
METHODS: Mapping[str, type[DirectJudge | SentencesJudge]] = {"direct": DirectJudge, "sentences": SentencesJudge}
# The short form asks once, for a reply that is cut off: a small model may fill any limit.
REPAIRS, SHORT_REPAIRS = 2, 0
TOKENS, SHORT_TOKENS = 512, 16
GROUNDEDNESS = load_catalogue()[CRITERION]
CLAIMS = frozenset({SpanVerdict.SUPPORTED, SpanVerdict.UNSUPPORTED, SpanVerdict.CONTRADICTED})


def choose_answers(answers: Sequence[LabelledAnswer], number: int) -> list[LabelledAnswer]:
    """Choose answers at random; a smaller number is the beginning of a larger one."""
    shuffled = list(answers)
    random.Random(SEED).shuffle(shuffled)
    return shuffled[:number]


def shorten_answer(answer: LabelledAnswer) -> LabelledAnswer:
    return replace(answer, contexts=answer.contexts[:1], answer=answer.answer.partition(". ")[0])


def case_to_judge(answer: LabelledAnswer) -> Case:
    contexts = tuple(Context(text=text) for text in answer.contexts)
    return case_of(Interaction(id=answer.id, question=answer.question, contexts=contexts, answer=answer.answer))


# Verdicts


class VerdictFile:
    """Verdicts of one model by method and answer, kept in a file if there is one."""

    def __init__(self, path: Path | None, model: str) -> None:
        self._path, self._model = path, model
        self._verdicts = dict(self._read())

    def find(self, method: str, answer: LabelledAnswer) -> JudgeVerdict | None:
        return self._verdicts.get((method, answer.id))

    def add(self, method: str, answer: LabelledAnswer, verdict: JudgeVerdict) -> None:
        self._verdicts[method, answer.id] = verdict
        if self._path is not None:
            key = {"model": self._model, "method": method, "answer": answer.id}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**key, "verdict": verdict.model_dump(mode="json")}) + "\n")

    def _read(self) -> Iterator[tuple[tuple[str, str], JudgeVerdict]]:
        if self._path is None or not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["model"] == self._model:
                yield (row["method"], row["answer"]), JudgeVerdict.model_validate(row["verdict"])


async def judge_all(judges: Mapping[str, Judge], answers: Iterator[LabelledAnswer], verdicts: VerdictFile) -> None:
    """Ask for the verdicts that are missing: both methods on one answer, and then the next answer.

    Several servers may take their answers from the same iterator.
    """
    for answer in answers:
        for method, judge in judges.items():
            if verdicts.find(method, answer) is None:
                verdict = await judge.judge(case_to_judge(answer), GROUNDEDNESS)
                if verdict.reason is Reason.UNAVAILABLE:
                    raise SystemExit(f"the server cannot be asked: {verdict.detail}")
                verdicts.add(method, answer, verdict)


async def time_methods(judges: Mapping[str, Judge], answers: Sequence[LabelledAnswer]) -> dict[str, list[float]]:
    """Return the seconds of each method on each answer, with the methods in turn and never twice on one answer."""
    seconds: dict[str, list[float]] = {method: [] for method in judges}
    for turn in range(len(judges)):
        for place, answer in enumerate(answers):
            method = list(judges)[(place + turn) % len(judges)]
            started = time.perf_counter()
            await judges[method].judge(case_to_judge(answer), GROUNDEDNESS)
            seconds[method].append(time.perf_counter() - started)
    return seconds


# Figures


def score_by_level(verdict: JudgeVerdict) -> float:
    return SUPPORTED if verdict.status is not Status.SCORED or verdict.score is None else verdict.score


def score_by_sentences(verdict: JudgeVerdict) -> float:
    """Return the share of supported sentences among those that claim something."""
    claims = [span.verdict for span in verdict.spans or () if span.verdict in CLAIMS]
    return claims.count(SpanVerdict.SUPPORTED) / len(claims) if claims else SUPPORTED


def print_figures(
    console: Console, answers: Sequence[LabelledAnswer], verdicts: Mapping[str, Sequence[JudgeVerdict]]
) -> None:
    bad = sum(not answer.is_supported for answer in answers)
    table = Table(title=f"{len(answers)} answers, {bad} of them not supported; in percent, with 95 % intervals")
    table.add_column("score")
    for heading in ("AUROC", "alarms", "precision", "recall", "F1", "F1, best cut"):
        table.add_column(heading, justify="right")
    scores = {f"{method}, level": list(map(score_by_level, judged)) for method, judged in verdicts.items()}
    scores["sentences, share"] = list(map(score_by_sentences, verdicts["sentences"]))
    for name, judged in scores.items():
        labelled = [(not answer.is_supported, score) for answer, score in zip(answers, judged, strict=True)]
        found = detect(labelled, SUPPORTED)
        assert found is not None
        cut = found.a_priori
        figures = (cut.precision, cut.recall, cut.f1)
        best = f"{_percent(found.best.f1)} below {found.best.below:.2f}"
        table.add_row(name, _percent(found.auroc), str(cut.alarms), *map(_percent, figures), best)
    console.print(table)


def _percent(ranged: Ranged) -> str:
    if ranged.measure.value is None or ranged.low is None or ranged.high is None:
        return "–"
    return f"{100 * ranged.measure.value:.1f} ({100 * ranged.low:.0f} to {100 * ranged.high:.0f})"


def print_statuses(console: Console, verdicts: Mapping[str, Sequence[JudgeVerdict]]) -> None:
    table = Table("method", *Status, "after a repair", title="verdicts")
    for method, judged in verdicts.items():
        counts = [sum(verdict.status is status for verdict in judged) for status in Status]
        repaired = sum(verdict.samples.repairs > 0 for verdict in judged)
        table.add_row(method, *map(str, counts), str(repaired))
    console.print(table)


def print_seconds(console: Console, seconds: Mapping[str, Sequence[float]]) -> None:
    table = Table("method", "records", "mean", "median", "highest", title="seconds per record, one record at a time")
    for method, taken in seconds.items():
        figures = (statistics.fmean(taken), statistics.median(taken), max(taken))
        table.add_row(method, str(len(taken)), *(f"{value:.1f}" for value in figures))
    console.print(table)


# The command line


def build_judges(model: str, base_url: str, *, short: bool) -> dict[str, Judge]:
    repairs, tokens = (SHORT_REPAIRS, SHORT_TOKENS) if short else (REPAIRS, TOKENS)
    return {
        method: kind(
            OpenAIModel(model, base_url=base_url, timeout_seconds=SECONDS, max_tokens=tokens),
            repairs=repairs,
        )
        for method, kind in METHODS.items()
    }


def read_options() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--labels", type=Path, metavar="FILE", help="labelled answers")
    parser.add_argument("--model", type=Path, metavar="FILE", help="model in the GGUF format")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a server (1)")
    parser.add_argument(
        "--url", action="append", metavar="URL", help="running server, such as http://127.0.0.1:8080/v1"
    )
    parser.add_argument("--servers", type=int, default=1, metavar="N", help="servers that share the answers (1)")
    parser.add_argument("--answers", type=int, metavar="N", help=f"answers to judge ({ANSWERS})")
    parser.add_argument("--timed", type=int, metavar="N", help=f"answers to measure seconds on ({TIMED}); 0: none")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="file of verdicts")
    parser.add_argument("--stored", action="store_true", help="judge nothing, and show what is in the file of verdicts")
    options = parser.parse_args()
    if options.answers is None:
        options.answers = SHORT_ANSWERS if options.short else ANSWERS
    if options.timed is None:
        options.timed = SHORT_TIMED if options.short else TIMED
    if options.stored and options.resume is None:
        parser.error("--stored needs --resume")
    return options


async def ask(
    panels: Sequence[Mapping[str, Judge]], answers: Sequence[LabelledAnswer], verdicts: VerdictFile, timed: int
) -> dict[str, list[float]]:
    unjudged = iter(answers)
    await asyncio.gather(*(judge_all(judges, unjudged, verdicts) for judges in panels))
    seconds = await time_methods(panels[0], answers[:timed])
    for judge in chain.from_iterable(judges.values() for judges in panels):
        await judge.aclose()
    return seconds


@contextmanager
def open_servers(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the addresses of the servers: of those that run already, or of new ones."""
    if options.url:
        yield options.url
        return
    skip_without("server", why_unavailable())
    with ExitStack() as stack:
        servers = [
            LlamaServer(parallel=1, model=options.model, threads=options.threads, remember=False)
            for _ in range(options.servers)
        ]
        yield [stack.enter_context(server).base_url for server in servers]


def main() -> None:
    options = read_options()
    answers = choose_answers(read_answers(options.labels), options.answers)
    if options.short:
        answers = list(map(shorten_answer, answers))
    model = MODEL if options.model is None else options.model.stem
    verdicts, seconds = VerdictFile(options.resume, model), dict[str, list[float]]()
    if not options.stored:
        with open_servers(options) as addresses:
            panels = [build_judges(model, address, short=options.short) for address in addresses]
            seconds = asyncio.run(ask(panels, answers, verdicts, options.timed))
    judged = [answer for answer in answers if all(verdicts.find(method, answer) for method in METHODS)]
    found = {
        method: [verdict for answer in judged if (verdict := verdicts.find(method, answer)) is not None]
        for method in METHODS
    }
    console = Console(width=130)
    print_figures(console, judged, found)
    print_statuses(console, found)
    if options.timed and seconds:
        print_seconds(console, seconds)


if __name__ == "__main__":
    main()
