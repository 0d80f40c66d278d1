"""Measures the prompt tokens that a server reads for the default criteria of one interaction, data first or last.

Streamjury's prompts begin with the data, which all criteria share. In the other order, task first, prompts share only
their opening sentences. A real llama.cpp server gets both, from the judge and in the order of dimensions that the
evaluator uses. The server's timings give the number of prompt tokens that it had to read.

    PYTHONPATH=. python benchmarks/bench_prefix_sharing.py
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser, skip_without
from judges import Criterion, DirectJudge, Interaction, OpenAIModel
from judges.llm.model_judge import Task
from judges.values.interaction import Case, Context, Turn, case_of
from stream.config.criteria import choose_criteria, compose_criteria
from stream.config.sections.criteria import CompositeConfig, CriteriaConfig
from tests.parts.llama import LlamaServer, why_unavailable

SECONDS = 900.0
SHORT_DIMENSIONS = 2

QUESTION = "My dishwasher from last March leaks. How long is the warranty, what does it cover, and who pays the visit?"
ANSWER = (
    "The warranty for your dishwasher lasts two years from the day of purchase, so it still holds. It covers faults "
    "in material and workmanship, and a leak from the door seal, the pump or the hoses is such a fault as long as "
    "the machine was connected by the rules in the manual. It does not cover damage by frost, by limescale or by "
    "objects left in the filter. The technician's visit is free of charge when the fault is covered; if it is not, "
    "the visit costs 49 euros, and spare parts are charged by the price list. To arrange a visit, call the service "
    "line on weekdays between eight and six, or fill in the form on the website, and have the receipt and the "
    "serial number at hand. The serial number is on the inner edge of the door. Until the technician comes, close "
    "the water tap and do not use the machine. If the leak has damaged your floor, take pictures of it and tell the "
    "service line at once, because such damage is handled by the insurance and not by the warranty. Most visits "
    "take place within five working days. A few things are worth checking before you call, because they are easy to "
    "mend and would make the visit one that you pay for: whether the filter sits flat and is locked, whether the "
    "lower spray arm turns freely, whether a plate or a spoon keeps the door from closing, and whether the drain "
    "hose lies higher than the sink. If you use washing-up liquid instead of dishwasher detergent, the foam leaves "
    "through the vent and looks like a leak; two empty runs of the short programme clear it. Should the technician "
    "not be able to repair the machine at your home, it is collected, and you get a machine on loan for as long as "
    "the repair takes. When the same fault comes back a third time within the two years, you may choose between a "
    "new machine of the same class and your money back, less a fifth for each full year of use. Please keep the "
    "report that the technician leaves with you: it is the proof that you need for that choice, and it extends the "
    "warranty of the part that was replaced by twelve months. If you bought the machine for an office, a restaurant "
    "or a flat that you let, other terms hold: one year on parts, visits at the hourly rate, and no machine on "
    "loan. Which terms are yours is printed on the receipt. And if the door seal turns out to be the cause, you may "
    "order a new one on the website by the model number and fit it yourself; it arrives within three working days, "
    "costs less than the visit, and does not end the warranty. The pump, the heater and the electronics must be "
    "left to the technician."
)
CONTEXTS = (
    "Household appliances come with a warranty of two years from the date of purchase. The warranty covers faults "
    "in material and workmanship. It does not cover wear, frost, limescale, foreign objects, or wrong installation.",
    "The visit of a technician is free when the fault is covered by the warranty. Otherwise the visit costs 49 "
    "euros. Spare parts are charged by the current price list. Visits take place within five working days of the "
    "call.",
    "To arrange a visit call the service line, Monday to Friday from 8 am to 6 pm, or use the form on the website. "
    "Keep the receipt and the serial number ready; it is printed on the inner edge of the door.",
    "If an appliance leaks, close the water tap, pull the plug and do not use the appliance until it was checked. "
    "Damage to floors and furniture is a matter for the insurance: take pictures and report it to the service line "
    "at once.",
    "Before calling about water on the floor, check the filter (flat and locked), the spray arms (turning freely), "
    "the door (nothing between door and tub) and the drain hose (not higher than the sink). Foam from washing-up "
    "liquid leaves through the vent and is not a fault; run the short programme twice without dishes.",
    "Appliances that cannot be repaired on the spot are collected. During the repair the customer has a machine on "
    "loan without charge. The loan ends three days after the repaired machine was brought back. Loan machines are "
    "cleaned and checked before each loan; damage beyond ordinary use is charged to the customer by the price list.",
    "If the same fault occurs for the third time within the warranty, the customer may choose between a new "
    "appliance of the same class and a refund of the price less twenty per cent for each full year of use. The "
    "technician's reports are the proof. Replaced parts carry a warranty of their own of twelve months from the day "
    "of the repair.",
    "The warranty holds for private households. Appliances in offices, laundries, restaurants and rented flats are "
    "under the commercial terms: one year on parts, visits at the hourly rate, and no machine on loan. The terms "
    "that hold are those printed on the receipt. A change of owner does not end the warranty when the receipt is "
    "handed over.",
    "Spare parts are kept for ten years after a model was last sold. Seals, hoses and filters can be ordered on the "
    "website by the model number and arrive within three working days; they may be fitted by the customer without "
    "losing the warranty. Pumps, heaters and electronics may be fitted by authorised technicians only.",
)


REFERENCE = (
    "The warranty lasts two years from the purchase and covers faults in material and workmanship. The visit is free "
    "if the fault is covered, and costs 49 euros otherwise."
)

HISTORY = (
    Turn(role="user", text="Good morning. I bought a dishwasher in your shop in Leeds in March last year."),
    Turn(role="assistant", text="Good morning! Thank you for the date. What can I do for you?"),
    Turn(role="user", text="It stands in a flat that I live in myself, and it was connected by your fitter."),
    Turn(role="assistant", text="Then the terms for private households hold. What is wrong with the machine?"),
)


def make_case(*, short: bool) -> Case:
    """Return an interaction; the short form has the beginning of each part, because reading is what takes time."""
    answer, contexts, history = ANSWER, CONTEXTS, HISTORY
    if short:
        answer, contexts, history = ANSWER.partition(". ")[0], CONTEXTS[:1], HISTORY[:1]
    passages = tuple(Context(text=text) for text in contexts)
    return case_of(
        Interaction(
            id="prefix",
            question=QUESTION,
            answer=answer,
            history=history,
            contexts=passages,
            reference=REFERENCE,
        )
    )


class TaskFirst(DirectJudge):
    """Asks with the same text in the other order: the task, then the data."""

    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        task = await super().task(case, criterion, reverse=reverse)
        system, user = task.messages
        data, blank, rubric = user.content.rpartition("\n\n")
        return replace(task, messages=[system, replace(user, content=rubric + blank + data)])


class Timings(httpx.AsyncHTTPTransport):
    """Counts the prompt tokens that the server reports as read, and those reused from the prompt before."""

    def __init__(self) -> None:
        super().__init__()
        self.read = self.reused = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        body = await response.aread()
        timings = json.loads(body)["timings"]
        self.read += timings["prompt_n"]
        self.reused += timings["cache_n"]
        return httpx.Response(response.status_code, headers=response.headers, content=body)


async def measure(kind: type[DirectJudge], base_url: str, case: Case, criteria: Sequence[Criterion]) -> Timings:
    """Judge one dimension after the other: a server with one slot keeps only the last prompt."""
    timings = Timings()
    model = OpenAIModel(
        "smollm2-135m", base_url=base_url, max_tokens=1, timeout_seconds=SECONDS, structured=False, transport=timings
    )
    judge = kind(model, repairs=0)
    for criterion in criteria:
        await judge.judge(case, criterion)
    await judge.aclose()
    return timings


def _default_criteria() -> Mapping[str, Criterion]:
    return choose_criteria(CriteriaConfig().use, {})


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    skip_without("server", why_unavailable())
    case, criteria = (
        make_case(short=options.short),
        compose_criteria(_default_criteria(), CompositeConfig()).asking_order,
    )
    if options.short:
        criteria = criteria[:SHORT_DIMENSIONS]
    with LlamaServer(parallel=1) as server:
        data_last = asyncio.run(measure(TaskFirst, server.base_url, case, criteria))
        data_first = asyncio.run(measure(DirectJudge, server.base_url, case, criteria))
    title = f"{len(criteria)} criteria of one interaction, llama.cpp"
    table = Table("order of the prompt", "tokens read", "reused", title=title)
    table.add_row("task first, data last", f"{data_last.read:,}", f"{data_last.reused:,}")
    table.add_row("data first, task last", f"{data_first.read:,}", f"{data_first.reused:,}")
    table.add_row("ratio", f"{data_first.read / data_last.read:.2f}", "")
    Console().print(table)


if __name__ == "__main__":
    main()
