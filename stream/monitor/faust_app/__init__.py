"""The monitor's Faust app.

- `app`: makes the app, with all of Faust's own doors closed
- `credentials`: librdkafka's security options as Faust wants them
- `read_committed`: makes Faust read committed records only
"""
