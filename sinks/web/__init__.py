"""The HTTP server of a process: one for metrics, health, and whatever else contributes a route.

server.py       `WebServer`: the server in a thread of its own, with start and stop
routes.py       `Route`, `Request` and `Reply`: what a page is made of; contributors need no more than this
metrics.py      the routes of `/metrics`
health.py       what the parts of a process report about themselves, and the routes of `/healthz` and `/readyz`
limits.py       `Limits`: sizes, deadlines and the number of connections, each with its reason
tls.py          certificates for HTTPS
application.py  from a request to a reply: token, body, handler, deadlines; the only module that imports aiohttp
connections.py  accepts connections, at most a fixed number at once
threads.py      runs handlers in threads, so that a slow one never stalls the event loop

To add a page, write a function from `Request` to `Reply` and put its `Route` into the list that `WebServer` is given.
"""
