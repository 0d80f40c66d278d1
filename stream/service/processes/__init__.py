"""Several processes that do the work of one worker, for more than one core.

- `supervisor`: starts the processes, serves their metrics and health on one port, and stops them together
- `slot`: one of the processes over all its restarts: when to start it again, and when to give up
- `child`: one running process, as the supervisor sees it
- `worker_process`: the worker inside such a process, and its answers to the supervisor
- `shares`: the configuration of each process, whose limits add up to those of the worker
- `cores`: the cores that this process may use
"""
