"""A LiteLLM callback that logs every completion to Kafka as an interaction for Streamjury. Copy it into your service.

    import litellm
    from litellm_streamjury import StreamjuryLogger

    logger = StreamjuryLogger({"bootstrap.servers": "kafka-1:9092"}, app="support-bot")
    litellm.callbacks = [logger]
    ...
    logger.flush()  # before the process ends; in asynchronous code: await logger.aflush()

A call may say more about itself in `metadata={"streamjury": {...}}`: `question`, `contexts`, `app`, `tenant`, `tags`,
`traceparent`. Without a question, it is the last message of the user, and the messages before it are the history.

It needs litellm and confluent-kafka. It never raises into your service: calls that it cannot log are counted in
`skipped`, and records that Kafka did not take in `failed`.
"""

import asyncio
import json
import logging
import threading
import time
from typing import Any

from confluent_kafka import KafkaException, Producer
from litellm.integrations.custom_logger import CustomLogger

log = logging.getLogger(__name__)

_FIELDS = ("question", "contexts", "app", "tenant", "tags", "traceparent")


class StreamjuryLogger(CustomLogger):
    def __init__(
        self, kafka: dict[str, Any], *, topic: str = "rag.interactions", app: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._producer = Producer(kafka)
        self._topic = topic
        self._app = app
        self._lock = threading.Lock()
        self._open: set[str] = set()
        self._logged: dict[str, None] = {}
        self.skipped = 0
        self.failed = 0

    # LiteLLM reports the outcome of a call in another thread or task, after the call returned.

    def log_pre_api_call(self, model: str, messages: Any, kwargs: dict[str, Any]) -> None:
        with self._lock:
            self._open.add(kwargs.get("litellm_call_id", ""))

    def log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._log(kwargs, response_obj)

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self._log(kwargs, response_obj)

    def log_failure_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._close(kwargs)

    async def async_log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self._close(kwargs)

    def flush(self, seconds: float = 10.0) -> int:
        """Wait until all calls so far are logged and Kafka has them; return how many are not."""
        deadline = time.monotonic() + seconds
        while self._open and time.monotonic() < deadline:
            time.sleep(0.02)
        return self._flush_producer(deadline)

    async def aflush(self, seconds: float = 10.0) -> int:
        """Flush without blocking the event loop, on which LiteLLM reports the outcomes of asynchronous calls."""
        deadline = time.monotonic() + seconds
        while self._open and time.monotonic() < deadline:  # noqa: ASYNC110 - outcomes also come from threads
            await asyncio.sleep(0.02)
        return await asyncio.to_thread(self._flush_producer, deadline)

    def _flush_producer(self, deadline: float) -> int:
        return self._producer.flush(max(0.1, deadline - time.monotonic())) + len(self._open)

    def _log(self, kwargs: dict[str, Any], response: Any) -> None:
        if kwargs.get("stream") and not _is_complete(kwargs):
            return  # a part of a stream; the whole answer comes with the last part
        try:
            if self._is_new(kwargs.get("litellm_call_id", "")):
                self._write(_interaction(kwargs, response, self._app))
        except Exception:
            self.skipped += 1
            log.exception("cannot log a completion for Streamjury")
        finally:
            self._close(kwargs)

    def _is_new(self, call: str) -> bool:
        """Some calls are reported twice, to the synchronous and to the asynchronous method."""
        with self._lock:
            is_new = call not in self._logged
            self._logged[call] = None
            while len(self._logged) > 10_000:
                del self._logged[next(iter(self._logged))]
        return is_new

    def _write(self, interaction: dict[str, Any] | None) -> None:
        if interaction is None:
            self.skipped += 1
            return
        value = json.dumps(interaction).encode()
        try:
            self._producer.produce(self._topic, key=interaction["id"], value=value, on_delivery=self._on_delivery)
            self._producer.poll(0)
        except (BufferError, KafkaException) as error:
            self.failed += 1
            log.warning("Kafka did not take an interaction: %s", error)

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.failed += 1
            log.warning("Kafka did not take an interaction: %s", error)

    def _close(self, kwargs: dict[str, Any]) -> None:
        with self._lock:
            self._open.discard(kwargs.get("litellm_call_id", ""))


def _is_complete(kwargs: dict[str, Any]) -> bool:
    names = ("complete_streaming_response", "async_complete_streaming_response")
    return any(kwargs.get(name) is not None for name in names)


def _interaction(kwargs: dict[str, Any], response: Any, app: str | None) -> dict[str, Any] | None:
    """Return the record, or None for a call without a question or an answer, such as one of a tool."""
    metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
    given = {name: value for name, value in (metadata.get("streamjury") or {}).items() if name in _FIELDS}
    turns = [(message.get("role"), _text(message.get("content"))) for message in kwargs.get("messages") or ()]
    asked = max((place for place, (role, text) in enumerate(turns) if role == "user" and text), default=None)
    answer = _text(response.choices[0].message.content)
    if not answer or (asked is None and "question" not in given):
        return None
    history = (
        []
        if asked is None
        else [{"role": role, "text": text} for role, text in turns[:asked] if role in {"user", "assistant"} and text]
    )
    return {
        "id": kwargs["litellm_call_id"],
        "model": kwargs.get("model"),
        "question": "" if asked is None else turns[asked][1],
        "answer": answer,
        **({"app": app} if app is not None else {}),
        **({"history": history} if history else {}),
        **given,
    }


def _text(content: Any) -> str:
    """Return the text of a message, which may consist of parts."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict) and "text" in part)
    return content or ""
