"""The judge kind `local`: the rules of `judges.local`, without a model."""

from typing import Literal

from pydantic import Field

from judges.judge import Judge
from judges.local import LocalJudge
from stream.config.judge_kinds.base import JudgeName, JudgeSection, SharedParts


class LocalJudgeConfig(JudgeSection):
    """A judge without a model: deterministic and free, for a first look."""

    kind: Literal["local"] = Field(default="local", description="Judge kind: rule-based, without a model or network.")
    name: JudgeName = Field(default="local", description="Name under which verdicts are published.")

    @property
    def is_shipped(self) -> bool:
        return True

    def build(self, shared: SharedParts) -> Judge:
        return LocalJudge(name=self.name)
