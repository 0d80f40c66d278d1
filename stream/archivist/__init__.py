"""The stage that writes evaluations, texts, alerts and labels to the archive, an SQL database.

- `stage`: reads batches, and writes each in one transaction with the positions after it
- `consumer`: reads the topics as a member of a group, from the positions in the database
- `rows`: turns records of Kafka into rows
"""
