"""The command line of a program that has one more kind of judge, registered as every kind is."""

from stream import judgekinds
from tests.stream.judgekinds.oracle_kind import OracleJudgeConfig

# The line that a new kind adds. Processes for judging import this module too, as they import the command that starts
# them, and so know the kind.
judgekinds.JUDGE_KINDS = (*judgekinds.JUDGE_KINDS, OracleJudgeConfig)

if __name__ == "__main__":
    from stream.cli import main

    main()
