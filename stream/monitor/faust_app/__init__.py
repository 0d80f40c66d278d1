"""The monitor's Faust app.

- `app`: makes the app, with all of Faust's own ports closed
- `credentials`: turns librdkafka's security options into Faust's
- `consumer`: Faust's consumer, made to skip aborted records and to stop while the broker is down
- `header_names`: lets aiokafka read records whatever their headers are named
- `events`: events as records, with the bytes that they had
- `unacknowledged`: records that Faust must neither commit nor wait for
"""
