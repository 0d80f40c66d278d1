"""The kinds of judges that a configuration can name, one module each: its section, its facts and its factory.

- `base`: the contract, `JudgeSection`, and what a kind is given to build its judges with
- `local`: `kind: local`, rules without a model
- `openai`: `kind: openai`, any endpoint with OpenAI's chat completions
- `anthropic`: `kind: anthropic`, Anthropic's Messages
- `ollama`: `kind: ollama`, Ollama's own API
- `model`: the base of the kinds that ask a model; it joins the keys of the next three
- `endpoint`: keys that say which model is asked, and where
- `method`: keys that say how it is asked
- `limits`: keys that say how much it is asked, and at what price

A new kind is a new module here and its class in `JUDGE_KINDS`. The rest of the program asks a `JudgeSection`, never
which kind it is.
"""

from stream.config.judge_kinds.anthropic import AnthropicJudgeConfig
from stream.config.judge_kinds.base import JudgeSection
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.judge_kinds.ollama import OllamaJudgeConfig
from stream.config.judge_kinds.openai import OpenAIJudgeConfig
from stream.config.walk import kind_of

JUDGE_KINDS: tuple[type[JudgeSection], ...] = (
    LocalJudgeConfig,
    OpenAIJudgeConfig,
    AnthropicJudgeConfig,
    OllamaJudgeConfig,
)
"""Every kind of judge, in the order of the documentation."""


def default_name(kind: object) -> str | None:
    """Returns the name of a judge of this kind that was given none; None when there is no such name or no such kind."""
    for section in JUDGE_KINDS:
        name = section.model_fields["name"]
        if kind_of(section) == kind and not name.is_required():
            return str(name.default)
    return None
