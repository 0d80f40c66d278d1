"""Measures the calls that early stopping saves, for samples of one judge and for the judges of a panel.

Each of five voters answers "pass" with the given probability. A voter's vote on an answer is always the same, so asking
all voters and stopping early see the same votes, and must reach the same outcomes. The endpoint counts the calls on a
real socket.

    PYTHONPATH=. python benchmarks/bench_early_stopping.py
"""

import asyncio
import hashlib
import sys
from collections.abc import Awaitable, Callable, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from judges import AspectCritic, JudgeVerdict, OpenAIModel, Panel
from judges.criteria.criterion import Criterion
from judges.values.evaluation import Dimension
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Respond, Response, verdict_response

ANSWERS, SHORT_ANSWERS = 200, 10
VOTERS = 5
PROBABILITIES = (1.0, 0.95, 0.8, 0.5)
CRITERION = Criterion.pass_fail("Is the answer polite?")

Ask = Callable[[JudgeEndpoint, list[str], bool], Awaitable[list[object]]]
"""Judges answers on an endpoint, with or without early stopping, and returns the outcomes."""


def vote(probability: float) -> Respond:
    """Return voters that pass answers with this probability; a voter is a seed or a model's name."""

    def respond(body: Body) -> Response:
        text = f"{body['seed']} {body['model']} {body['messages'][-1]['content']}"
        draw = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
        return verdict_response("pass" if draw < probability else "fail")

    return respond


def outcomes(results: Sequence[JudgeVerdict] | Sequence[Dimension]) -> list[object]:
    return [(result.status, result.option, result.level, result.score) for result in results]


async def ask_one_judge(endpoint: JudgeEndpoint, answers: list[str], stop_early: bool) -> list[object]:
    model = OpenAIModel("voter", base_url=endpoint.base_url)
    judge = AspectCritic(model, CRITERION, strictness=VOTERS, stop_early=stop_early)
    try:
        return outcomes(await judge.aevaluate(answers))
    finally:
        await judge.aclose()


async def ask_panel(endpoint: JudgeEndpoint, answers: list[str], stop_early: bool) -> list[object]:
    models = [OpenAIModel(f"voter-{number}", base_url=endpoint.base_url) for number in range(VOTERS)]
    panel = Panel(judges=tuple(AspectCritic(model) for model in models), combine="majority", stop_early=stop_early)
    try:
        return outcomes(await panel.aevaluate(answers, CRITERION))
    finally:
        await panel.aclose()


async def count_calls(
    ask: Ask, answers: list[str], probability: float, *, stop_early: bool
) -> tuple[int, list[object]]:
    """Judge the answers on a new endpoint, and return the calls made and the outcomes."""
    with JudgeEndpoint(vote(probability)) as endpoint:
        results = await ask(endpoint, answers, stop_early)
        return len(endpoint.calls), results


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    answers = [f"Answer number {number}." for number in range(SHORT_ANSWERS if options.short else ANSWERS)]
    columns = ("voters", "pass", "calls, all", "calls, early", "saved", "outcomes")
    table = Table(*columns, title=f"{len(answers)} answers, {VOTERS} votes each")
    ways: dict[str, Ask] = {"samples": ask_one_judge, "judges of a panel": ask_panel}
    for name, ask in ways.items():
        for probability in PROBABILITIES:
            calls, expected = asyncio.run(count_calls(ask, answers, probability, stop_early=False))
            early_calls, results = asyncio.run(count_calls(ask, answers, probability, stop_early=True))
            if results != expected:
                sys.exit(f"{name}: stopping early changed an outcome")
            saved = 1 - early_calls / calls
            table.add_row(name, f"{probability:.0%}", str(calls), str(early_calls), f"{saved:.0%}", "identical")
    Console().print(table)


if __name__ == "__main__":
    main()
