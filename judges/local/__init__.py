"""The local judge: rules instead of a model."""

from judges.local.judge import LocalJudge

__all__ = ["LocalJudge"]
