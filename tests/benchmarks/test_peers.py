"""The comparison with other tools: its endpoint is fair to each of them, and it runs without them."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from benchmarks.bench_peers import CRITERIA, PeerRun, make_row
from benchmarks.peers.endpoint import BLOCK_BYTES, BLOCK_TOKENS, Behaviour, PeerEndpoint, fill_schema, write_answer
from tests.benchmarks.test_benchmarks import run_short

VERDICTS = {
    "$defs": {
        "Verdict": {
            "type": "object",
            "properties": {
                "verdict": {"type": "integer"},
                "label": {"enum": ["no", "idk", "yes"]},
                "reason": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            },
            "required": ["verdict", "label", "reason"],
        }
    },
    "type": "object",
    "properties": {
        "verdicts": {"type": "array", "items": {"$ref": "#/$defs/Verdict"}},
        "noncommittal": {"type": "integer"},
    },
    "required": ["verdicts", "noncommittal"],
}


def request(prompt: str, **options: object) -> dict[str, Any]:
    return {"model": "judge", "messages": [{"role": "user", "content": prompt}], **options}


def ask(endpoint: PeerEndpoint, *bodies: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    async def ask_all() -> list[tuple[int, dict[str, Any]]]:
        return [await endpoint.respond("POST", "/v1/chat/completions", json.dumps(body).encode()) for body in bodies]

    return asyncio.run(ask_all())


def start(**scenario: Any) -> PeerEndpoint:
    endpoint = PeerEndpoint()
    endpoint.set_scenario(Behaviour(**{"fixed_seconds": 0.0, **scenario}))
    return endpoint


def test_a_schema_is_filled_with_the_best_verdicts() -> None:
    value = fill_schema(VERDICTS, VERDICTS)
    jsonschema.validate(value, VERDICTS)
    assert isinstance(value, dict)
    assert {verdict["label"] for verdict in value["verdicts"]} == {"yes"}
    assert value["noncommittal"] == 0


@pytest.mark.parametrize("where", ["response_format", "tools", "prompt"])
def test_the_schema_is_found_wherever_a_tool_writes_it(where: str) -> None:
    prompt = f'Like {{"this": 1}}. Answer by {json.dumps(VERDICTS)}' if where == "prompt" else "Judge."
    options: dict[str, object] = {
        "response_format": {"response_format": {"type": "json_schema", "json_schema": {"schema": VERDICTS}}},
        "tools": {"tools": [{"type": "function", "function": {"name": "judge", "parameters": VERDICTS}}]},
        "prompt": {"response_format": {"type": "json_object"}},
    }
    jsonschema.validate(json.loads(write_answer(request(prompt, **options[where]), prompt)), VERDICTS)  # type: ignore[arg-type]


def test_the_shared_beginning_of_prompts_is_read_once() -> None:
    endpoint = start()
    shared = "".join(random.Random(1).choices("abc", k=10 * BLOCK_BYTES))
    replies = ask(endpoint, request(shared + "first"), request(shared + "second"))
    cached = [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for _, reply in replies]
    assert cached == [0, 10 * BLOCK_TOKENS]
    assert endpoint.tally.uncached_tokens == endpoint.tally.prompt_tokens - sum(cached)


def test_faults_come_at_their_share_and_in_the_same_order_every_time() -> None:
    shares = {"throttled": 0.2, "failed": 0.1, "unreadable": 0.1}
    bodies = [request("Judge.")] * 500
    statuses = [[status for status, _ in ask(start(**shares), *bodies)] for _ in range(2)]
    assert statuses[0] == statuses[1]
    assert 70 < statuses[0].count(429) < 130
    assert 30 < statuses[0].count(500) < 70


def test_an_unreadable_answer_is_no_json_and_is_counted() -> None:
    endpoint = start(unreadable=1.0)
    [(status, reply)] = ask(endpoint, request("Judge."))
    assert status == 200
    _, tally = asyncio.run(endpoint.respond("GET", "/tally", b""))
    assert json.loads(json.dumps(tally))["faults"] == {"unreadable": 1}
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(reply["choices"][0]["message"]["content"])


def test_more_requests_than_places_wait() -> None:
    endpoint = start(places=1, fixed_seconds=0.02)

    async def ask_at_once() -> float:
        body = json.dumps(request("Judge.")).encode()
        started = asyncio.get_running_loop().time()
        await asyncio.gather(*(endpoint.respond("POST", "/v1/chat/completions", body) for _ in range(5)))
        return asyncio.get_running_loop().time() - started

    assert asyncio.run(ask_at_once()) >= 5 * 0.02
    assert endpoint.tally.most_in_flight == 5


def test_a_missing_score_loses_its_row_and_a_changed_one_is_counted() -> None:
    def run(**scores: dict[str, float | None]) -> PeerRun:
        return PeerRun(tool="tool", rows=3, tally={}, scores=scores, cost=None)

    whole: dict[str, float | None] = {"a": 1.0, "b": 1.0, "c": 1.0}
    healthy = run(one=whole, two=whole, three=whole)
    faulty = run(one=whole, two={**whole, "a": None}, three={**whole, "b": 0.0})
    assert (healthy.lost_rows, healthy.missing_scores, healthy.count_changed_scores(healthy)) == (0, 0, 0)
    assert (faulty.lost_rows, faulty.missing_scores, faulty.count_changed_scores(healthy)) == (1, 1, 1)
    assert healthy.count_changed_scores(run(one=whole, two={**whole, "a": None})) == 0
    assert (run().lost_rows, run().missing_scores) == (3, 3 * CRITERIA)


def test_no_row_shares_its_passages_with_another() -> None:
    rows = [make_row(number) for number in range(50)]
    assert len({json.dumps(row["contexts"]) for row in rows}) == len({row["question"] for row in rows}) == 50


@pytest.mark.slow
def test_without_the_other_tools_it_measures_streamjury_and_names_them(tmp_path: Path) -> None:
    printed = run_short("bench_peers", tmp_path, "--peers", str(tmp_path))
    assert "has not installed them: ragas, deepeval, mlflow" in printed
    [row] = [line for line in printed.splitlines() if line.startswith("| streamjury") and "completed" in line]
    assert "| 0 of 4 | 0 of 12 | 0 |" in row
