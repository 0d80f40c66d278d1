"""The parts of the page that need Kafka or the stages of this process; implements `sinks.page.backend`.

- `serving`: opens the page of a process, and returns its routes for the web server
- `backend`: opens all parts for a process that serves the page
- `labels`: writes labels and their retractions to their topic
- `review`: the queue of answers to label, a random sample
- `dead_letters`: lists dead letters, and replays chosen ones
- `letter_index`: the latest dead letters, and which of them were replayed
- `positions`: the progress of the stages on their topics
- `explanations`: explains alerts in the background
- `refreshed`: a value that a thread keeps fresh while it is used
"""
