"""Calls a model through LiteLLM, with our logger, as a service would: python litellm_calls.py BASE_URL BOOTSTRAP."""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path

import litellm

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "examples"))

from litellm_streamjury import StreamjuryLogger

base_url, bootstrap = sys.argv[1:]
endpoint = {"model": "openai/test-model", "api_base": base_url, "api_key": "none", "max_retries": 0, "num_retries": 0}
CONTEXTS = [{"id": "kb-7", "text": "Goods can be returned within 30 days."}]


def ask(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]


async def ask_at_once(logger: StreamjuryLogger) -> int:
    calls = [litellm.acompletion(messages=ask(f"async {number}"), **endpoint) for number in range(3)]
    await asyncio.gather(*calls)
    stream = await litellm.acompletion(messages=ask("async stream"), stream=True, **endpoint)
    async for _part in stream:
        pass
    return await logger.aflush(30.0)


def main() -> None:
    logger = StreamjuryLogger({"bootstrap.servers": bootstrap}, app="support-bot")
    litellm.callbacks = [logger]
    about = {"streamjury": {"contexts": CONTEXTS, "question": "How long?", "tags": {"release": "7"}}}
    litellm.completion(messages=ask("stuffed prompt with contexts: How long?"), metadata=about, **endpoint)
    earlier = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    parts = {"role": "user", "content": [{"type": "text", "text": "in parts"}]}
    litellm.completion(messages=[*earlier, parts], **endpoint)
    for _part in litellm.completion(messages=ask("stream"), stream=True, **endpoint):
        pass
    litellm.completion(messages=ask("tool"), **endpoint)
    with suppress(litellm.exceptions.BadRequestError):
        litellm.completion(messages=ask("fail"), **endpoint)
    left = logger.flush(30.0)
    left += asyncio.run(ask_at_once(logger))
    print(json.dumps({"left": left, "skipped": logger.skipped, "failed": logger.failed}))


if __name__ == "__main__":
    main()
