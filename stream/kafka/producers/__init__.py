"""Producers, one for each delivery guarantee.

- `transactional`: records and their source offsets become visible together or not at all
- `exclusive`: transactions under a name that only one process holds; the newest fences the others
- `immediate`: single records at once, outside any transaction
- `counting`: plain delivery that counts the broker's confirmations
- `oversize`: the replacement for a message that is too large for its topic
"""
