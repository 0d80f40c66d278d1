"""How each API of chat models is written and read: the contract in `base`, one file per API, errors in `failures`."""
