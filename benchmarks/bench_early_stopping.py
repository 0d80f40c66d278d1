"""What early stopping saves: calls made with it and without it, for samples of one judge and for judges of a panel.

Each of five voters says "pass" of an answer with the given probability, the same for the same answer and voter however
often it is asked, so that both ways of asking hear the same votes. The endpoint is on a real socket and counts.

    make bench
"""

import asyncio
import hashlib
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from judges import AspectCritic, JudgeVerdict, OpenAIModel, Panel
from judges.criteria import Criterion
from judges.evaluation import Dimension
from tests.parts.judge_endpoint import Body, JudgeEndpoint, Respond, Response, verdict_response

ANSWERS = 200
VOTERS = 5
CRITERION = Criterion.pass_fail("Is the answer polite?")
INSTANCES = [f"Answer number {number}." for number in range(ANSWERS)]


def voting(probability: float) -> Respond:
    """A voter is a seed or a model's name; its vote depends on that and on the answer alone."""

    def respond(body: Body) -> Response:
        text = f"{body['seed']} {body['model']} {body['messages'][-1]['content']}"
        draw = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
        return verdict_response("pass" if draw < probability else "fail")

    return respond


def outcomes(found: Sequence[JudgeVerdict] | Sequence[Dimension]) -> list[object]:
    return [(one.status, one.option, one.level, one.score) for one in found]


async def by_samples(endpoint: JudgeEndpoint, *, stop_early: bool) -> list[object]:
    model = OpenAIModel("voter", base_url=endpoint.base_url)
    judge = AspectCritic(model, CRITERION, strictness=VOTERS, stop_early=stop_early)
    try:
        return outcomes(await judge.aevaluate(INSTANCES))
    finally:
        await judge.aclose()


async def by_panel(endpoint: JudgeEndpoint, *, stop_early: bool) -> list[object]:
    models = [OpenAIModel(f"voter-{number}", base_url=endpoint.base_url) for number in range(VOTERS)]
    panel = Panel(judges=tuple(AspectCritic(model) for model in models), combine="majority", stop_early=stop_early)
    try:
        return outcomes(await panel.aevaluate(INSTANCES, CRITERION))
    finally:
        await panel.aclose()


def main() -> None:
    columns = ("voters", "pass", "calls, all", "calls, early", "saved", "outcomes")
    table = Table(*columns, title=f"{ANSWERS} answers, {VOTERS} votes each")
    for name, ask in (("samples", by_samples), ("judges of a panel", by_panel)):
        for probability in (1.0, 0.95, 0.8, 0.5):
            calls, found = [], []
            for stop_early in (False, True):
                with JudgeEndpoint(voting(probability)) as endpoint:
                    found.append(asyncio.run(ask(endpoint, stop_early=stop_early)))
                    calls.append(len(endpoint.calls))
            if found[0] != found[1]:
                sys.exit(f"{name}: stopping early changed an outcome")
            saved = 1 - calls[1] / calls[0]
            table.add_row(name, f"{probability:.0%}", str(calls[0]), str(calls[1]), f"{saved:.0%}", "identical")
    Console().print(table)


if __name__ == "__main__":
    main()
