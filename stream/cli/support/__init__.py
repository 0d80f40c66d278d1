"""Parts that commands share.

- `options`: options that several commands have, and reading the configuration
- `time_option`: a point in time as an option
- `column_option`: columns of a file under other names
- `label_files`: files of labels
- `cluster`: reaches the cluster, or says why it cannot
- `delivery`: which records could not be sent
- `salt`: a random salt for the sampling, its masked form, and a warning about a public one
- `safety_judge`: a warning if only the local judge decides about safety
- `interruption`: a clean end on Ctrl-C and SIGTERM
- `json_output`: JSON on standard output that cannot steer a terminal
- `progress`: progress of long work
"""
