"""A model endpoint for comparisons: answers any JSON schema after a set time, counts tokens, and fails at a set rate.

It speaks OpenAI's chat completions and embeddings, and does not interpret texts. It fills the schema of each request
with the best verdict and with text of a fixed length, so that every tool gets answers of the same kind, and the score
of a row is known. A token is four bytes. The prefix cache works like vLLM's: in blocks of 16 tokens, which other
requests share from the moment that a request has its place.

Run as a program, it prints its port, and ends with its standard input. `PUT /scenario` sets how it behaves and starts
counting from zero; `GET /tally` returns the counts.
"""

import asyncio
import json
import random
import re
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Json = dict[str, Any]

BYTES_PER_TOKEN = 4
BLOCK_TOKENS = 16
BLOCK_BYTES = BLOCK_TOKENS * BYTES_PER_TOKEN
LIST_ITEMS = 3
EMBEDDING_SIZE = 64
TEXT = "The answer agrees with the passages that were given, and every part of it addresses what the user asked about."
# Values that cannot be inferred from a schema, by the name of the property.
KNOWN_VALUES: Mapping[str, object] = {"noncommittal": 0, "verdict": "yes", "result": "yes", "attributed": 1}
BEST_INTEGER, BEST_SCORE = 1, 9
# The answer if neither the request nor the prompt has a schema, in the form that G-Eval describes in words.
PLAIN_ANSWER = {"reason": TEXT, "score": BEST_SCORE}
NOT_BEST = frozenset({"not_applicable", "idk", "unknown", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Behaviour of the endpoint; faults are shares of all chat requests."""

    places: int = 64
    """Maximum number of concurrent requests; the others wait in their order of arrival."""

    fixed_seconds: float = 0.2
    uncached_token_seconds: float = 0.0
    output_token_seconds: float = 0.0
    cache_blocks: int = 16_384
    throttled: float = 0.0
    failed: float = 0.0
    unreadable: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 10.0
    seed: int = 1

    def draw_fault(self, generator: random.Random) -> str | None:
        shares = {name: getattr(self, name) for name in ("throttled", "failed", "unreadable", "slow")}
        [fault] = generator.choices([*shares, None], [*shares.values(), 1.0 - sum(shares.values())])
        return fault


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts since the scenario was set."""

    requests: int = 0
    embeddings: int = 0
    prompt_tokens: int = 0
    uncached_tokens: int = 0
    output_tokens: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    faults: dict[str, int] = field(default_factory=dict)


class PrefixCache:
    """Blocks of earlier prompts; the least recently used ones are evicted."""

    def __init__(self, blocks: int) -> None:
        self._size = blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def hash_blocks(self, prompt: bytes) -> list[int]:
        """Hash each full block together with everything before it."""
        hashes, previous = [], 0
        for start in range(0, len(prompt) - BLOCK_BYTES + 1, BLOCK_BYTES):
            previous = hash((previous, prompt[start : start + BLOCK_BYTES]))
            hashes.append(previous)
        return hashes

    def count_cached(self, hashes: list[int]) -> int:
        count = 0
        for block in hashes:
            if block not in self._blocks:
                break
            self._blocks.move_to_end(block)
            count += 1
        return count * BLOCK_TOKENS

    def add(self, hashes: list[int]) -> None:
        for block in hashes:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._size:
            self._blocks.popitem(last=False)


# Answers


def fill_schema(schema: Json, root: Json, name: str = "") -> object:
    """Build a value that conforms to a JSON schema, the best one if there is a choice."""
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return fill_schema(target, root, name)
    if "enum" in schema:
        choices = [value for value in schema["enum"] if value not in NOT_BEST]
        return "yes" if "yes" in choices else choices[-1]
    if "const" in schema:
        return schema["const"]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return fill_schema(next(option for option in schema[key] if option.get("type") != "null"), root, name)
    return fill_type(schema, root, name)


def fill_type(schema: Json, root: Json, name: str) -> object:
    match schema.get("type"):
        case "object":
            return {key: fill_schema(value, root, key) for key, value in schema.get("properties", {}).items()}
        case "array":
            return [fill_schema(schema.get("items", {}), root, name) for _ in range(LIST_ITEMS)]
        case "integer" | "number":
            value = KNOWN_VALUES.get(name)
            return value if isinstance(value, int) else BEST_SCORE if name == "score" else BEST_INTEGER
        case "boolean":
            return True
        case _:
            value = KNOWN_VALUES.get(name)
            return value if isinstance(value, str) else TEXT


def read_schema(body: Json) -> Json | None:
    """Return the schema of the tool that must be called, or of the response format."""
    if tools := body.get("tools"):
        return dict(tools[0]["function"]["parameters"])
    response_format = body.get("response_format") or {}
    return dict(response_format["json_schema"]["schema"]) if response_format.get("type") == "json_schema" else None


def write_prompt(body: Json) -> str:
    """Write the conversation as a chat template would: tools first, as they are part of the prompt."""
    tools = json.dumps(body["tools"]) if body.get("tools") else ""
    return tools + "".join(f"<|{message['role']}|>{plain_text(message)}" for message in body["messages"])


def plain_text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def write_answer(body: Json, prompt: str) -> str:
    schema = read_schema(body) or find_schema(prompt)
    return json.dumps(PLAIN_ANSWER if schema is None else fill_schema(schema, schema))


def find_schema(prompt: str) -> Json | None:
    """Find the last JSON schema in the prompt itself, where some tools write it."""
    decoder, schema, start = json.JSONDecoder(), None, 0
    while (start := prompt.find("{", start)) >= 0:
        try:
            value, start = decoder.raw_decode(prompt, start)
        except ValueError:
            start += 1
            continue
        if "properties" in value:
            schema = value
    return schema


def completion(body: Json, text: str, *, prompt_tokens: int, cached_tokens: int, output_tokens: int) -> Json:
    message: Json = {"role": "assistant", "content": text}
    if body.get("tools"):
        call = {"name": body["tools"][0]["function"]["name"], "arguments": text}
        message |= {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": call}]}
    ending = "tool_calls" if body.get("tools") else "stop"
    likelihoods = {"content": [certain_token(token) for token in re.findall(r"\w+|\W", text)]}
    return {
        "id": "completion-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": number,
                "message": message,
                "finish_reason": ending,
                "logprobs": likelihoods if body.get("logprobs") else None,
            }
            for number in range(body.get("n") or 1)
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": prompt_tokens + output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        },
    }


def certain_token(token: str) -> Json:
    alternative = {"token": token, "logprob": -0.001, "bytes": None}
    return {**alternative, "top_logprobs": [alternative]}


def embeddings(body: Json) -> Json:
    """Return the same embedding for every text, so that all questions are maximally similar."""
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vector = [EMBEDDING_SIZE**-0.5] * EMBEDDING_SIZE
    data = [{"object": "embedding", "index": number, "embedding": vector} for number in range(len(texts))]
    return {
        "object": "list",
        "data": data,
        "model": body["model"],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


# The server


def write_head(status: int, size: int) -> bytes:
    lines = (f"HTTP/1.1 {status} Status", "Content-Type: application/json", f"Content-Length: {size}", "", "")
    return "\r\n".join(lines).encode()


class PeerEndpoint:
    """Serves all connections in one event loop."""

    def __init__(self) -> None:
        self.set_scenario(Behaviour())

    def set_scenario(self, scenario: Behaviour) -> None:
        self._scenario, self.tally = scenario, Tally()
        self._places = asyncio.Semaphore(scenario.places)
        self._cache = PrefixCache(scenario.cache_blocks)
        self._generator = random.Random(scenario.seed)

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, _ = head.decode().split(" ", 2)
                size = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(size[1]) if size else 0)
                status, answer = await self.respond(method, path, body)
                content = json.dumps(answer).encode()
                opening = (
                    f"HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
                )
                writer.write(opening.encode() + b"\r\n\r\n" + content)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        finally:
            writer.close()

    async def respond(self, method: str, path: str, content: bytes) -> tuple[int, Json]:
        if path == "/tally":
            return 200, asdict(self.tally)
        body = json.loads(content)
        if (method, path) == ("PUT", "/scenario"):
            self.set_scenario(Behaviour(**body))
            return 200, {}
        if path.endswith("/embeddings"):
            self.tally.embeddings += 1
            await asyncio.sleep(self._scenario.fixed_seconds)
            return 200, embeddings(body)
        if path.endswith("/chat/completions"):
            return await self._complete(body, self._scenario, self.tally)
        return 404, {"error": {"message": f"no such path {path}", "code": 404}}

    async def _complete(self, body: Json, scenario: Behaviour, tally: Tally) -> tuple[int, Json]:
        tally.requests += 1
        fault = scenario.draw_fault(self._generator)
        if fault is not None:
            tally.faults[fault] = tally.faults.get(fault, 0) + 1
        if fault in ("throttled", "failed"):
            status = 429 if fault == "throttled" else 500
            return status, {"error": {"message": fault, "type": "server_error", "code": str(status)}}
        tally.in_flight += 1
        tally.most_in_flight = max(tally.most_in_flight, tally.in_flight)
        try:
            async with self._places:
                return 200, await self._generate(body, scenario, tally, fault)
        finally:
            tally.in_flight -= 1

    async def _generate(self, body: Json, scenario: Behaviour, tally: Tally, fault: str | None) -> Json:
        prompt = write_prompt(body)
        text = write_answer(body, prompt)
        if fault == "unreadable":
            text = text[: len(text) // 2]
        hashes = self._cache.hash_blocks(prompt.encode())
        prompt_tokens = len(prompt.encode()) // BYTES_PER_TOKEN
        output_tokens = len(text) // BYTES_PER_TOKEN * (body.get("n") or 1)
        cached_tokens = self._cache.count_cached(hashes)
        self._cache.add(hashes)
        tally.prompt_tokens += prompt_tokens
        tally.uncached_tokens += prompt_tokens - cached_tokens
        tally.output_tokens += output_tokens
        seconds = scenario.fixed_seconds + (scenario.slow_seconds if fault == "slow" else 0.0)
        seconds += scenario.uncached_token_seconds * (prompt_tokens - cached_tokens)
        # Several choices of one request are generated at the same time.
        seconds += scenario.output_token_seconds * (len(text) // BYTES_PER_TOKEN)
        await asyncio.sleep(seconds)
        return completion(
            body, text, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, output_tokens=output_tokens
        )


async def serve() -> None:
    endpoint = PeerEndpoint()
    server = await asyncio.start_server(endpoint.serve_client, "127.0.0.1", 0, backlog=1024, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
