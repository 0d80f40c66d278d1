"""The audit: accounts for every interaction.

- `audit`: reads the topics, from the last to the first
- `account`: the bookkeeping, and whether it balances
"""
