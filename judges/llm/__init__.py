"""Judges that ask a language model: `base` has what they share, then one file per judge; `prompts` has their words."""
