"""Model families, derived from the names under which models are served.

A judge tends to prefer text that it could have written itself, so a panel may exclude judges of the author's family. If
a name contains several families, the first counts: `DeepSeek-R1-Distill-Qwen-7B` has the weights of one family and the
style of the other, which its makers name first, and a judge recognises the style.
"""

import re
from collections.abc import Mapping

# Words in a model's name, alone or directly followed by a version ("llama3", "qwen2.5").
_WORDS: Mapping[str, str] = {
    "gpt": r"(?:chat)?gpt(?!-?(?:neo|j\b|jt|sw|4all))|davinci|codex",
    "claude": "claude",
    "llama": "(?:code|tiny|open)?llama|vicuna|alpaca",
    "mistral": "mistral|mixtral|ministral|codestral|devstral|magistral|mathstral|pixtral|voxtral",
    "qwen": "(?:code)?qwen|qwq|qvq|tongyi",
    # Gemma is built from the same research as Gemini.
    "gemini": "gemini|(?:code|pali|shield|med|rec)?gemma|learnlm",
    "deepseek": "deepseek",
    "granite": "granite",
    "phi": "phi",
    "command": "command|c4ai|aya",
    "yi": "yi",
    "glm": "(?:chat|code)?glm",
    "smollm": "smollm",
    "gigachat": "gigachat",
    "yandexgpt": "yandexgpt|yalm",
    "grok": "grok",
    "nova": "nova",
    "titan": "titan",
    "kimi": "kimi|moonshot|moonlight",
    "jamba": "jamba",
    "dbrx": "dbrx",
    "falcon": "falcon",
    "internlm": "internlm|intern-s",
    "baichuan": "baichuan",
    "minicpm": "minicpm",
    "minimax": "minimax|abab",
    "olmo": "olmoe?|tulu",
    "nemotron": "nemotron",
    "exaone": "exaone",
    "hunyuan": "hunyuan",
    "ernie": "ernie",
    "doubao": "doubao",
    "stablelm": "stablelm",
    "starcoder": "starcoder",
    "bloom": "bloomz?",
    "solar": "solar",
    "sonar": "sonar",
    "reka": "reka",
    "lfm": "lfm",
    "mimo": "mimo",
}

# Publishers whose models are all of one family, for names that contain only the publisher.
_PUBLISHERS: Mapping[str, str] = {
    "gpt": "openai",
    "claude": "anthropic",
    "mistral": "mistralai",
    "command": "cohere(?:forai)?",
    "yi": "01-ai",
    "glm": "thudm|zhipuai?|zai-org|z-ai",
    "grok": "xai(?:-org)?|x-ai",
    "kimi": "moonshotai",
    "jamba": "ai21(?:labs)?",
}

# Other models have these names inside their own ("Marco-o1"): only at the beginning do they count.
_O_SERIES = re.compile(r"(?:.*\bopenai[.:_-])?o[1-9](?![0-9a-z])")


def _word_pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z])(?:{words})(?![a-z])")


_FAMILIES = {family: _word_pattern(words) for family, words in _WORDS.items()}
_MAKERS = {family: _word_pattern(words) for family, words in _PUBLISHERS.items()}


def family_of(model_name: str | None) -> str | None:
    """Return the family of a model, whatever publisher, path, version or quantisation its name has; None if unknown.

    >>> family_of("meta-llama/Llama-3.3-70B-Instruct"), family_of("qwen2.5:7b"), family_of("my-model")
    ('llama', 'qwen', None)
    """
    if not model_name:
        return None
    # The name proper is the last part of a path; earlier parts count only if it has no family.
    parts = [part for part in re.split(r"[/\\]+", model_name.casefold()) if part]
    for part in reversed(parts):
        family = _family_in(part)
        if family is not None:
            return family
    return next((family for part in reversed(parts) if (family := _first_family(_MAKERS, part))), None)


def is_related(family: str | None, model_name: str | None) -> bool:
    """Whether a judge of this family is of the author's family; False if either is unknown."""
    author = family_of(model_name)
    if author is None or not family:
        return False
    return author == (family_of(family) or family.casefold())


def _family_in(part: str) -> str | None:
    # A word character on either side would hide a name: "saiga_llama3", "command_r".
    spaced = part.replace("_", "-")
    return "gpt" if _O_SERIES.match(spaced) else _first_family(_FAMILIES, spaced)


def _first_family(patterns: Mapping[str, re.Pattern[str]], part: str) -> str | None:
    """Return the family whose name comes first."""
    positions = {family: match.start() for family, pattern in patterns.items() if (match := pattern.search(part))}
    return min(positions, key=positions.__getitem__, default=None)
