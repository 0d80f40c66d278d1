"""What the page needs from Kafka and from the stages of this process; it implements `sinks.page.backend`.

- `serving`: opens the page of a process: its routes for the web server
- `backend`: opens all parts for a process that serves the page
- `labels`: writes labels and their retractions to their topic
- `review`: the queue of answers to label, a random sample
- `dead_letters`: lists dead letters, and replays chosen ones
- `letter_index`: knows the latest dead letters, and which were replayed
- `positions`: where the stages stand on their topics
- `explanations`: explains alerts in the background
- `refreshed`: a value that a thread keeps fresh while it is asked for
"""
