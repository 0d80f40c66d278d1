"""The monitor's Faust app.

- `app`: makes the app, with all of Faust's own ports closed
- `credentials`: turns librdkafka's security options into Faust's
- `read_committed`: makes Faust read committed records only
- `unacknowledged`: records that Faust must neither commit nor wait for
"""
