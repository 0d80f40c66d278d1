"""The judge kind `encoder`: a trained ONNX classifier that runs on this machine."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from judges.criteria.problems import InconsistentError
from judges.encoder import SHIPPED, EncoderJudge, ModelFileError
from judges.encoder.session import missing_extra
from judges.judge import Judge
from stream.config.judge_kinds.base import JudgeName, JudgeSection, SharedParts


class EncoderJudgeConfig(JudgeSection):
    """A trained classifier on this machine: no key and no network. It needs the extra `encoder`."""

    kind: Literal["encoder"] = Field(
        default="encoder", description="Judge kind: a trained ONNX classifier on this machine."
    )
    name: JudgeName = Field(default="encoder", description="Name under which verdicts are published.")
    path: str | None = Field(
        default=None,
        max_length=4096,
        description=(
            "Folder with model.yaml, or that file itself; relative to this file. Null: the shipped groundedness model."
        ),
    )
    threads: int = Field(default=1, ge=1, le=256, description="Threads for one batch.")
    workers: int = Field(default=1, ge=1, le=64, description="Batches that run at the same time.")
    batch_tokens: int = Field(
        default=4096,
        ge=32,
        le=1_000_000,
        description="Most tokens in a batch, with padding: the bound on memory. One input always fits.",
    )

    @property
    def folder(self) -> Path:
        """The place of the model."""
        return SHIPPED if self.path is None else Path(self.path)

    @property
    def is_shipped(self) -> bool:
        return self.path is None

    @property
    def relative_cost(self) -> float:
        """A verdict costs processor time, and is asked for after the rules and before any paid model."""
        return 1e-12

    def missing_extra(self) -> str | None:
        return missing_extra()

    def build(self, shared: SharedParts) -> Judge:
        try:
            return EncoderJudge(
                self.folder,
                name=self.name,
                threads=self.threads,
                workers=self.workers,
                batch_tokens=self.batch_tokens,
            )
        except ModelFileError as error:
            problems = [(("path",), f"{error.file}: {problem}") for problem in error.problems]
            raise InconsistentError(problems) from error


def default_encoder() -> tuple[JudgeSection, ...]:
    """Return the shipped model as a judge if its packages and its files are installed."""
    is_usable = missing_extra() is None and (SHIPPED / "model.onnx").is_file()
    return (EncoderJudgeConfig(),) if is_usable else ()
