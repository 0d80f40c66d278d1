"""The kinds of judges that a configuration can use, one module each: its section, its facts and its factory.

- `base`: the contract, `JudgeSection`, and the parts that a kind builds its judges from
- `local`: `kind: local`, rules without a model
- `encoder`: `kind: encoder`, a trained ONNX classifier on this machine
- `openai`: `kind: openai`, any endpoint with OpenAI's chat completions
- `anthropic`: `kind: anthropic`, Anthropic's Messages
- `ollama`: `kind: ollama`, Ollama's own API
- `model`: the base of the kinds that ask a model; it joins the keys of the next three
- `endpoint`: keys for the model and its address
- `method`: keys for how the model is asked
- `limits`: keys for rate limits and prices

A new kind is a new module here and its class in `JUDGE_KINDS`. The rest of the program uses the methods of a
`JudgeSection`, and never checks its kind.
"""

from stream.config.judge_kinds.anthropic import AnthropicJudgeConfig
from stream.config.judge_kinds.base import JudgeSection
from stream.config.judge_kinds.encoder import EncoderJudgeConfig
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.judge_kinds.ollama import OllamaJudgeConfig
from stream.config.judge_kinds.openai import OpenAIJudgeConfig
from stream.config.walk import kind_of

JUDGE_KINDS: tuple[type[JudgeSection], ...] = (
    LocalJudgeConfig,
    EncoderJudgeConfig,
    OpenAIJudgeConfig,
    AnthropicJudgeConfig,
    OllamaJudgeConfig,
)
"""Every kind of judge, in the order of the documentation."""


def default_name(kind: object) -> str | None:
    """Return the default name of a judge of this kind, or None if the kind has none or does not exist."""
    for section in JUDGE_KINDS:
        name = section.model_fields["name"]
        if kind_of(section) == kind and not name.is_required():
            return str(name.default)
    return None
