"""Reads a prompt by its own description, without the code that built it, and reports text outside its fence.

A prompt names a code of six hexadecimal digits before any judged text. A line that begins with `### ` or `--- ` and
ends with the code is a marker; judged text stands between markers, our own words stand outside. A text has escaped when

1. the roles of the messages are not those of the same prompt with harmless texts;
2. a message other than the user's differs from that prompt, so that something judged stands in it;
3. what stands outside the markers differs from that prompt by more than the code;
4. the parts between the markers are not the judged texts, one for one and in order (spaces aside, see 6);
5. the code, or anything drawn like it, stands in a judged text, so that one of its lines could be taken for a marker;
6. a word is left in any message that a chat template is made of, and that a server could take for the end of a message.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from judges.models.base import ChatMessage

_CODE = re.compile(r"\b[0-9a-f]{6}\b")
_ENDS = ("end", "конец")
_DRAWN_ALIKE = str.maketrans("асеАСЕ", "aceace") | {0xE0000 + code: code for code in range(0x20, 0x7F)}
CONTROL_WORDS = """
<|im_start|> <|im_end|> [INST] [/INST] <<SYS>> <</SYS>> <s> </s> <|eot_id|> <|start_header_id|> <|end_header_id|>
<start_of_turn> <end_of_turn> <|user|> <|assistant|> <|system|> <|end|> <|endoftext|> <|start_of_role|> <|end_of_role|>
<|end_of_text|> <｜User｜> <｜Assistant｜> <｜end▁of▁sentence｜> [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [AVAILABLE_TOOLS]
[/AVAILABLE_TOOLS] [TOOL_CALLS] <|START_OF_TURN_TOKEN|> <|SYSTEM_TOKEN|> <|END_OF_TURN_TOKEN|> <|channel|> <|message|>
<|return|> <bos> <eos> <pad> <unk> [gMASK] <sop> <|observation|> <turn|> <|turn>
[|system|] [|user|] [|assistant|] [|endofturn|] [|tool|] <SPECIAL_10> <SPECIAL_12> <extra_id_0> <extra_id_1>
<seed:bos> <seed:eos> <seed:think> </seed:think> <seed:tool_call> <[begin▁of▁sentence]> <[end▁of▁sentence]>
]~!b[ ]~b] [e~[ ]!p~[ <minimax:tool_call> </minimax:tool_call> <beginning_of_sentence> <end_of_sentence> <eop> [MASK]
[sMASK] <BOS_TOKEN> <EOS_TOKEN> <PAD_TOKEN> <EOP_TOKEN> <|START_THINKING|> <|END_RESPONSE|> [THINK] [/THINK] [ARGS]
[CALL_ID] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CONTENT] [MODEL_SETTINGS] [IMG] [IMG_BREAK] [IMG_END] [PREFIX] [SUFFIX]
[MIDDLE]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    roles: tuple[str, ...]
    others: tuple[str, ...]
    """The messages that are not the user's."""

    outside: str
    """The user's message without the judged texts and the code."""

    blocks: tuple[str, ...]
    code: str


def read_prompt(messages: Sequence[ChatMessage]) -> Prompt:
    [user] = [message.content for message in messages if message.role == "user"]
    match = _CODE.search(user)
    assert match, "the prompt names no code"
    code = match[0]
    outside: list[str] = []
    blocks: list[str] = []
    open_block: list[str] | None = None
    for line in user.split("\n"):
        if not (line.startswith(("### ", "--- ")) and line.endswith(f" {code}")):
            (outside if open_block is None else open_block).append(line)
            continue
        if open_block is not None:
            blocks.append("\n".join(open_block))
        outside.append(line)
        open_block = None if line.split(" ")[1] in _ENDS else []
    assert open_block is None, "the last block has no end"
    return Prompt(
        roles=tuple(message.role for message in messages),
        others=tuple(message.content for message in messages if message.role != "user"),
        outside="\n".join(outside).replace(code, "CODE"),
        blocks=tuple(blocks),
        code=code,
    )


def escapes(messages: Sequence[ChatMessage], harmless: Sequence[ChatMessage], judged: Sequence[str]) -> list[int]:
    """Return the numbers of the rules above that the prompt breaks."""
    prompt, plain = read_prompt(messages), read_prompt(harmless)
    same_texts = [block.replace(" ", "") for block in prompt.blocks] == [text.replace(" ", "") for text in judged]
    holds_by_rule = {
        1: prompt.roles == plain.roles,
        2: prompt.others == plain.others,
        3: prompt.outside == plain.outside,
        4: same_texts,
        5: not any(prompt.code in form for text in judged for form in (text.casefold(), fold_lookalikes(text))),
        6: not control_words(messages),
    }
    return [rule for rule, holds in holds_by_rule.items() if not holds]


def control_words(messages: Sequence[ChatMessage]) -> list[str]:
    text = "\n".join(message.content for message in messages).casefold()
    return [word for word in CONTROL_WORDS.split() if word.casefold() in text]


def fold_lookalikes(text: str) -> str:
    """Return only the visible letters and digits, however they are written."""
    plain = unicodedata.normalize("NFKD", text).translate(_DRAWN_ALIKE).casefold()
    return re.sub("[^a-z0-9]+", "", plain)
