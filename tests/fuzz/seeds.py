"""Seeds: good inputs of every kind for mutation to break, and the words that have a meaning in them."""

import json

import yaml

from tests.fuzz.mutation import SEPARATOR

INTERACTION: dict[str, object] = {
    "id": "7f3a",
    "timestamp": "2026-11-15T10:00:00Z",
    "app": "shop",
    "tenant": "acme",
    "model": "tiny-1",
    "question": "How do I return a jacket? Как вернуть?",
    "history": [{"role": "user", "text": "Hello"}, {"role": "assistant", "text": "Hi."}],
    "contexts": [{"id": "c1", "text": "Returns are free for 30 days.", "score": 0.7}, {"text": "Возврат 30 дней."}],
    "answer": "Send it back within 30 days. It is free.",
    "reference": "Within 30 days.",
    "candidates": [{"name": "a", "answer": "x"}],
    "tags": {"tier": "gold", "rating": -1, "ok": True, "share": 0.5},
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
FOREIGN: dict[str, object] = {
    "req": {"id": 17, "body": [{"q": "Is it open?"}]},
    "resp": {"choices": [{"text": "It is open until 8."}]},
    "docs": [{"content": "Open from 9 to 20."}, "Open."],
    "turns": ["Hello", {"content": "Hi", "role": "assistant"}],
    "svc": "docs",
    "meta": {"tier": "gold"},
}
HEADERS = (
    b"sj-probability=0.25\nsj-rule=default\nsj-lane=main\nsj-salt=streamjury\nsj-version=1\n"
    b"sj-sampled-at=2026-11-15T10:00:00+00:00"
)
FAILED = (
    b"sj-error-stage=worker\nsj-error-type=bad_json\nsj-error-message=not JSON\nsj-attempts=1\n"
    b"sj-source-topic=rag.sampled\nsj-source-partition=0\nsj-source-offset=7\nsj-failed-at=2026-11-15T10:00:00+00:00\nx-env=live"
)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def framed(key: bytes, headers: bytes, timestamp: bytes, value: bytes) -> bytes:
    """Join a record into one input; see `tests.fuzz.targets.framed_record`."""
    return SEPARATOR.join((key, headers, timestamp, value))


INTERACTIONS = (
    _json(INTERACTION),
    _json({"id": "1", "question": "q", "answer": "a"}),
    _json({"id": "2", "question": "q", "answer": "I'm sorry, I cannot help", "contexts": []}),
)
FOREIGN_RECORDS = (_json(FOREIGN), _json({**FOREIGN, "docs": "Open.", "turns": None}))
RECORDS = (
    framed(b"7f3a", HEADERS, b"1790000000000", _json(INTERACTION)),
    framed(b"", b"x-env=live\nx-ms=250", b"1790000060000", _json(INTERACTION)),
    framed(
        b"k", b"", b"-1", _json({"id": "1", "question": "q", "answer": "a", "timing": {"ms": 5000, "steps": [1, 2]}})
    ),
)
DEAD_LETTERS = tuple(framed(b"k", headers, b"0", b"{broken") for headers in (FAILED, HEADERS + b"\n" + FAILED, b""))
ENVELOPES = (HEADERS, b"sj-probability=1.0", HEADERS.replace(b"0.25", b"1.1102230246251565e-16"), b"other=1")

_VERDICT = {"steps": ["one"], "explanation": "It says so.", "feedback": "Say more.", "verdict": "Excellent"}
COMPLETIONS = (
    _json(_VERDICT),
    b'<think>{"verdict": "Bad"}</think>\n```json\n' + _json({**_VERDICT, "verdict": 2}) + b"\n```",
    _json({**_VERDICT, "verdict": "not applicable"}),
    _json({**_VERDICT, "verdict": "Yes"}) + b" That is all.",
    _json({**_VERDICT, "verdict": 0.75}),
    _json({**_VERDICT, "verdict": "2: Good"}),
    "Извините, я не могу ответить.".encode(),
    b"<score> yes </score>\n<confidence> High </confidence>\nbecause",
    b"No",
)
_LOGPROBS = {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": [{"token": "No", "logprob": -2.5}]}]}
_CHOICE = {"message": {"role": "assistant", "content": "Yes"}, "finish_reason": "stop", "logprobs": _LOGPROBS}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 2}
RESPONSES = (
    SEPARATOR.join((b"200", b"", _json({"choices": [_CHOICE], "usage": _USAGE}))),
    SEPARATOR.join((b"200", b"", _json({"choices": [{"message": {"content": [{"type": "text", "text": "No"}]}}]}))),
    SEPARATOR.join((b"429", b"0", _json({"error": {"message": "slow down", "code": 1}}))),
    SEPARATOR.join((b"503", b"Sun, 15 Nov 2026 10:00:00 GMT", b"<html>busy</html>")),
    SEPARATOR.join((b"400", b"", _json({"error": "response_format is not supported, logprobs neither"}))),
)
STEPS = (
    b'{"at_ms": 1790000000000, "rule": "default", "k": 8}\n{"at_ms": 1790000002000, "rule": "default", "k": 9}\n',
    b'{"at_ms": 0, "rule": "shop", "k": 0}\n\n',
    b"[]\n",
)

CONFIG: dict[str, object] = {
    "kafka": {"bootstrap": "localhost:9092", "options": {"security.protocol": "plaintext", "linger.ms": 5}},
    "topics": {"interactions": "rag.interactions", "partitions": 2},
    "input": {
        "adapter": "mapping",
        "mapping": {"id": "a.0", "question": "b", "answer": "c", "app": "d", "tags": "e"},
        "limits": {"nesting": 8},
    },
    "sampling": {
        "rate": 0.5,
        "salt": "salt",
        "safety": {"rate": 1.0, "words": ["acme*"], "thumbs_down": {"stars": {"max": 2}}},
        "rules": [
            {"name": "shop", "match": {"app": ["shop", "docs"], "tags": {"tier": 1}}, "rate": 0.1},
            {
                "name": "slow",
                "match": {"body": {"t.ms": {"min": 5}}, "headers": {"x": {"regex": "^a+$"}}},
                "target_per_minute": 9,
            },
        ],
    },
    "judges": {"panel": [{"kind": "local", "name": "one"}], "quorum": 1, "language": "en"},
    "criteria": {"use": ["rag.clarity", "rag.harmfulness"]},
    "composite": {"weights": {"clarity": 2.0}},
    "worker": {"concurrency": 4, "retry_seconds": [60, 300]},
    "http": {"port": 0},
    "logging": {"level": "info"},
}
_OPENAI = {"kind": "openai", "name": "far", "model": "m", "base_url": "http://localhost:1/v1", "api_key": "${KEY:-}"}
_LADDER = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
CONFIGS = (
    _json(CONFIG),
    _json({"judges": {"panel": [_OPENAI]}}),
    _json({"sampling": {"target_per_minute": 10, "max_per_minute": 5}}),
    yaml.safe_dump(CONFIG, allow_unicode=True).encode(),
    f"a0: &a0 [1, 2]\n{_LADDER}".encode(),
    b"a: &a {b: *a}\n<<: *a\n!!python/object/apply:os.system ['true']: ! x\n? [1]\n: - >\n  folded\n",
    b"%YAML 1.1\n--- !!map\nsampling: !!float 0.5\n...\n",
)
OVERRIDES = (
    b"STREAMJURY__SAMPLING__RATE=0.5\nSTREAMJURY__JUDGES__PANEL__0__NAME=x",
    b"STREAMJURY__KAFKA__OPTIONS__SASL_PASSWORD='se:cret'\nSTREAMJURY__KAFKA=null",
    b"STREAMJURY__SAMPLING__RULES__0={name: a, match: {app: x}, rate: 1}\nSTREAMJURY__SAMPLING__RULES__0__RATE=0.2",
    b"STREAMJURY__JUDGES__PANEL__0__KIND=openai\nSTREAMJURY__JUDGES__PANEL__0__MODEL=m\nSTREAMJURY__HTTP__TOKEN=abc",
    b"STREAMJURY__WORKER__RETRY_SECONDS=[1, 2]\nSTREAMJURY__CRITERIA__USE__0=rag.clarity",
)
_TEXT = {"en": "Is it so?", "ru": "Так ли это?"}
_LEVELS = [{"value": value, "label": f"L{value}", "description": _TEXT} for value in range(3)]
_CRITERION: dict[str, object] = {"name": "tone", "title": _TEXT, "question": _TEXT}
CRITERIA = (
    _json({"criteria": [{**_CRITERION, "scale": {"levels": _LEVELS}, "needs": ["answer"], "higher_is": "better"}]}),
    _json({"criteria": [{**_CRITERION, "scale": {"binary": {"passes": "yes", "fails": "no"}}, "not_applicable": "-"}]}),
    _json({"criteria": [{**_CRITERION, "scale": {"range": {"min": 0, "max": 10}}, "ignore": _TEXT}]}),
    _json(
        {"criteria": [{**_CRITERION, "scale": {"options": [{"label": "a", "score": 1}, {"label": "b", "score": 0}]}}]}
    ),
)

YAML_WORDS: tuple[bytes, ...] = (
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!python/name:os.system",
    b"!!binary ",
    b"!!float ",
    b"? ",
    b"- ",
    b"|\n",
    b">+9\n",
)
YAML_WORDS += (
    b"%TAG ! x:\n",
    b"---\n",
    b"...\n",
    b"#",
    b"'",
    b"0o9",
    b"0x",
    b".inf",
    b"~",
    b"${",
    b"${X:-",
    b"$${",
    b"\x85",
)
RECORD_WORDS = (
    b'"id":',
    b'"tags":',
    b'"contexts":null',
    b"sj-probability=",
    b"sj-version=2",
    b"nan",
    b"inf",
    b"1_0",
    b"=",
    b"0x1p-3",
)
COMPLETION_WORDS = (
    b'"verdict"',
    b"<think>",
    b"</think>",
    b"<thinking>",
    b"{",
    b"}",
    b"```",
    b"<score>",
    b"</score>",
    b"\\u0076erdict",
)
