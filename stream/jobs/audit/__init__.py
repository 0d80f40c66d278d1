"""The audit: accounts for every interaction.

- `audit`: reads the topics, from the last to the first
- `account`: the bookkeeping, and whether it balances
- `traces`: the same for the traces that the assembler reads
"""
