"""The configuration as a typed model. It validates shapes and opens no files.

- `model`: the whole configuration
- `sections`: one module per section of the file
- `judge_kinds`: one module per kind of judge: its section and its factory
- `sink_kinds`: one module per kind of sink: its section and its factory
- `section`: the base class and field types of sections
- `criteria`: turns the configured criteria and composite into the judges' own values
- `names`: names with a fixed meaning, such as lanes and rules
- `patterns`: patterns that names must match, with their explanations
- `rate_scale`: the scale of rates that adaptive sampling moves on
- `secrets`: finds the secrets of a configuration, so that the log can hide them
- `walk`: finds the type at a key of the model, and lists the keys
- `reference`: the starter file, the JSON Schema and the explanation of every key, from the model
"""
