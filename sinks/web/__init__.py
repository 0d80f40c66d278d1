"""The HTTP server of a process, for metrics, health, and every other part that contributes a route.

- `server`: `WebServer`, the server in its own thread, with start and stop
- `routes`: `Route`, `Request` and `Reply`; a contributor needs no more than these
- `metrics`: the routes of `/metrics`
- `health`: health of the parts of a process, and the routes of `/healthz` and `/readyz`
- `limits`: `Limits`: sizes, deadlines and the number of connections, each with its reason
- `tls`: certificates for HTTPS
- `application`: from a request to a reply: token, body, handler, deadlines; the only module that imports aiohttp
- `connections`: accepts connections, at most a fixed number at once
- `threads`: runs handlers in threads, so that a slow one never stalls the event loop

To add a page, write a function from `Request` to `Reply` and put its `Route` into the list that `WebServer` is given.
"""
