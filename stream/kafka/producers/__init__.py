"""Producers, one for each promise that publishing has to keep.

- `transactional`: records and the offsets they come from become visible together or not at all
- `exclusive`: transactions under a name that only one process holds; the newest fences out the others
- `immediate`: single records at once, outside any transaction
- `counting`: plain delivery that counts what the broker confirmed
- `oversize`: the replacement for a message that is too large for its topic
"""
