"""The monitor's Faust app.

- `app`: makes the app, with all of Faust's own ports closed
- `credentials`: turns librdkafka's security options into Faust's
- `events`: events as records, with the bytes that they had
- `read_committed`: makes Faust read committed records only
- `unacknowledged`: records that Faust must neither commit nor wait for
"""
