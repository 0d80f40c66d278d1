"""The pipeline: reads logged interactions from Kafka, samples them, has them judged, and watches the results.

- `cli`: the command line: one module per command
- `page`: what the page in the browser needs from Kafka and the stages
- `jobs`: work that ends: files, comparisons, history, audits and replays
- `service`: runs stages in a process, and builds what they need from the configuration file
- `assembler`: the stage that turns OpenTelemetry spans into interactions
- `sampler`: the stage that decides which interactions are judged
- `worker`: the stage that judges them
- `monitor`: the stage that watches the evaluations and raises alerts
- `archivist`: the stage that writes the evaluations to an SQL database
- `records`: gives the bytes of a record their meaning
- `kafka`: moves bytes
- `logs`: logging of the program
- `config`: the configuration as a typed model
- `errors`: the errors of records and stages

Imports go in one direction only, and the stages do not import each other (`make lint` checks it):

    cli → page → jobs → service → (assembler | sampler | worker | monitor | archivist)
        → records → kafka → logs → config → errors
"""
