"""Model families: recognized in all the forms of model names, and never guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.model_family import family_of, is_related

NAMES = {
    "gpt": [
        "gpt-4o-mini",
        "gpt4o",
        "chatgpt-4o-latest",
        "azure/gpt-35-turbo",
        "ft:gpt-4o-mini-2024-07-18:acme::abc123",
        "gpt-oss:20b",
        "openai/gpt-oss-120b",
        "o1",
        "o3-mini",
        "openai/o4-mini-high",
        "openai.o1-preview",
        "text-davinci-003",
    ],
    "claude": ["claude-3-5-sonnet-latest", "us.anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic/latest"],
    "llama": [
        "meta-llama/Llama-3.3-70B-Instruct",
        "llama3.3:70b-instruct-q4_K_M",
        "us.meta.llama3-3-70b-instruct-v1:0",
        "/models/Meta-Llama-3-8B-Instruct.Q4_K_M.gguf",
        "C:\\models\\codellama-13b.gguf",
        "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
        "IlyaGusev/saiga_llama3_8b",
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        "nvidia/Llama-3.1-Nemotron-70B-Instruct",
        "Skywork-o1-Open-Llama-3.1-8B",
    ],
    "mistral": [
        "mistral-large-latest",
        "open-mistral-nemo",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        "ministral-8b-2410",
        "codestral:22b",
        "dolphin-2.5-mixtral-8x7b",
        "mistralai/Something-New",
    ],
    "qwen": ["qwen2.5:7b", "Qwen/Qwen2.5-72B-Instruct-AWQ", "QwQ-32B", "qwen-max"],
    "gemini": ["gemini-2.5-pro", "models/gemini-1.5-pro-002", "google/gemma-2-9b-it", "gemma3n:e4b", "codegemma:7b"],
    "deepseek": ["deepseek-chat", "deepseek-ai/DeepSeek-V3", "bartowski/DeepSeek-R1-Distill-Qwen-7B-GGUF"],
    "granite": ["ibm-granite/granite-guardian-3.2-5b", "granite3.1-dense:8b"],
    "phi": ["microsoft/Phi-3.5-mini-instruct", "phi4"],
    "command": ["command-r-plus", "CohereForAI/c4ai-command-r-v01", "aya-expanse:8b"],
    "yi": ["01-ai/Yi-34B-Chat", "yi:6b"],
    "glm": ["glm-4.5", "THUDM/chatglm3-6b"],
    "smollm": ["HuggingFaceTB/SmolLM2-135M-Instruct"],
    "gigachat": ["GigaChat-2-Max", "gigachat-pro"],
    "yandexgpt": ["gpt://b1g0123456789/yandexgpt-lite/latest", "YandexGPT-5-Lite-8B-instruct"],
    "grok": ["grok-4", "x-ai/grok-3-mini"],
    "nova": ["amazon.nova-pro-v1:0"],
    "kimi": ["moonshotai/Kimi-K2-Instruct", "moonshot-v1-8k"],
}


@pytest.mark.parametrize(("name", "family"), [(name, family) for family, names in NAMES.items() for name in names])
def test_the_family_is_recognized_by_the_name(name: str, family: str) -> None:
    assert family_of(name) == family
    assert family_of(name.upper()) == family


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "/",
        "my-model",
        "local",
        "dolphin-2",  # not phi
        "Marco-o1",
        "EleutherAI/gpt-neo-2.7B",
        "EleutherAI/gpt-j-6b",
        "gpt4all-13b",
        "ai-forever/rugpt3large",
        "innovation-7b",
        "o1000",
    ],
)
def test_a_name_that_only_resembles_a_family_is_unknown(name: str | None) -> None:
    assert family_of(name) is None


@given(st.text(max_size=60))
def test_no_name_is_too_strange(name: str) -> None:
    family = family_of(name)
    assert family is None or is_related(family, name)


def test_unknown_is_never_a_relative_of_unknown() -> None:
    assert not is_related(None, "my-model")
    assert not is_related(None, None)
    assert not is_related("acme", "my-model")
    assert not is_related("", "")


def test_a_family_may_be_given_as_a_name_of_one_of_its_models() -> None:
    assert is_related("Llama-3", "meta-llama/Llama-3.3-70B-Instruct")
    assert is_related("qwen", "QwQ-32B")
    assert not is_related("qwen", "llama3")
