"""The command line.

- `main`: `streamjury` itself; loads a command when it is called
- `commands`: one module per command
- `support`: options, progress, interruption and cluster access that commands share
- `terminal`: output on a terminal: the live view, the summary of a run, notifications
- `demo`: simulated traffic with known faults
"""
