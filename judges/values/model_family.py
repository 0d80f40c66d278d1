"""Model families: which models are relatives, read from the names under which they are served.

A judge tends to prefer what it could have written itself, so that relatives of an answer's author may be kept from
judging it. Of several families in one name the first counts: `DeepSeek-R1-Distill-Qwen-7B` has the weights of one and
writes like the other, which is the one its makers name first, and it is the writing that a judge recognises.
"""

import re
from collections.abc import Mapping

# Words that stand in a model's name, alone or with a version right behind them ("llama3", "qwen2.5").
_WORDS: Mapping[str, str] = {
    "gpt": r"(?:chat)?gpt(?!-?(?:neo|j\b|jt|sw|4all))|davinci|codex",
    "claude": "claude",
    "llama": "(?:code|tiny|open)?llama|vicuna|alpaca",
    "mistral": "mistral|mixtral|ministral|codestral|devstral|magistral|mathstral|pixtral|voxtral",
    "qwen": "(?:code)?qwen|qwq|qvq|tongyi",
    # Gemma is made from what Gemini is made from.
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

# Publishers all of whose models are of one family, for names that say no more than who made them.
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

# Others imitate these names further inside their own ("Marco-o1"): only at the beginning are they the real ones.
_O_SERIES = re.compile(r"(?:.*\bopenai[.:_-])?o[1-9](?![0-9a-z])")


def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z])(?:{words})(?![a-z])")


_FAMILIES = {family: _whole(words) for family, words in _WORDS.items()}
_MAKERS = {family: _whole(words) for family, words in _PUBLISHERS.items()}


def family_of(model_name: str | None) -> str | None:
    """The family of a model, whatever publisher, path, version or quantisation its name carries; None when unknown.

    >>> family_of("meta-llama/Llama-3.3-70B-Instruct"), family_of("qwen2.5:7b"), family_of("my-model")
    ('llama', 'qwen', None)
    """
    if not model_name:
        return None
    # The name proper is the last part of a path; what stands before it is asked only where that says nothing.
    parts = [part for part in re.split(r"[/\\]+", model_name.casefold()) if part]
    for part in reversed(parts):
        family = _named(part)
        if family is not None:
            return family
    return next((family for part in reversed(parts) if (family := _first(_MAKERS, part))), None)


def related(family: str | None, model_name: str | None) -> bool:
    """Whether a judge of this family is of the author's family; of the unknown nobody is a relative."""
    author = family_of(model_name)
    if author is None or not family:
        return False
    return author == (family_of(family) or family.casefold())


def _named(part: str) -> str | None:
    # A word character on either side would hide a name: "saiga_llama3", "command_r".
    spaced = part.replace("_", "-")
    return "gpt" if _O_SERIES.match(spaced) else _first(_FAMILIES, spaced)


def _first(patterns: Mapping[str, re.Pattern[str]], part: str) -> str | None:
    """The family whose name stands first."""
    found = {family: match.start() for family, each in patterns.items() if (match := each.search(part))}
    return min(found, key=found.__getitem__, default=None)
