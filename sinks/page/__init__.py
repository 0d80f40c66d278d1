"""The page: live quality in a browser, from the archive and from the pipeline.

- `routes`: all routes, for the one web server of a process
- `access`: roles, sessions, and protection against forged requests
- `backend`: protocols for the parts that the pipeline provides to the page
- `settings`: the settings of the page, from the configuration
- `api`: the HTTP API, one module for each screen
- `endpoint`: turns functions of the API into routes
- `requests`: reads parameters and bodies
- `replies`: JSON replies, and the headers of every reply
- `shapes`: JSON forms that several replies share
- `states`: the state of an app, with the reason
- `reply_cache`: caches replies, so that many viewers of a screen cost as much as one
- `audit`: the audit log of labels and replays
- `assets`: the files in `static/`, with their headers
"""
