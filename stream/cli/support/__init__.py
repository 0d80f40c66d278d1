"""Parts that commands share.

- `options`: options that several commands have, and reading the configuration
- `time_option`: a point in time as an option
- `cluster`: reaches the cluster, or says why it cannot
- `salt`: a random salt for the sampling, its masked form, and a warning about a public one
- `interruption`: a clean end on Ctrl-C and SIGTERM
- `json_output`: JSON on standard output that cannot steer a terminal
- `progress`: progress of long work
"""
