"""The command line of a program that has one more kind of judge, registered as every kind is."""

from stream.config import judge_kinds
from tests.stream.config.judge_kinds.oracle_kind import OracleJudgeConfig

# The line that a new kind adds. Processes for judging import this module too, as they import the command that starts
# them, and so know the kind.
judge_kinds.JUDGE_KINDS = (*judge_kinds.JUDGE_KINDS, OracleJudgeConfig)

if __name__ == "__main__":
    from stream.cli.main import main

    main()
