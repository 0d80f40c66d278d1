"""The commands, one module each, named as the command. `stages` has three: `sampler`, `worker` and `monitor`."""
