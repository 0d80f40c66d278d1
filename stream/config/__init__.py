"""The configuration: what was asked for. It validates shapes and opens no files.

- `model`: the whole configuration as one typed model
- `sections`: one module per section of the file
- `judge_kinds`: one module per kind of judge: its section and its factory
- `section`: what every section is made of
- `criteria`: the configured criteria and composite as the judges' own values
- `names`: names with a fixed meaning, such as lanes and rules
- `rate_scale`: the scale of rates that adaptive sampling moves on
- `walk`: finds what stands at a key of the model
- `reference`: the reference of all keys, the starter file and the JSON Schema, written from the model
"""
