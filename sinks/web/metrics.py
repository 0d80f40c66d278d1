"""`/metrics`, for Prometheus and for people."""

from prometheus_client import CollectorRegistry

from sinks.metrics.scrape import MetricsPage
from sinks.web.routes import Reply, Request, Route


def metrics_routes(registry: CollectorRegistry) -> tuple[Route, ...]:
    """Return `/metrics`; `?name[]=...` selects single metrics."""
    page = MetricsPage(registry)

    def show(request: Request) -> Reply:
        scrape = page.expose(
            accept=request.headers.get("accept", ""),
            accept_encoding=request.headers.get("accept-encoding", ""),
            names=request.query.get("name[]", ()),
            is_shown=request.method != "HEAD",
        )
        headers = {"Content-Encoding": "gzip"} if scrape.is_compressed else {}
        return Reply(body=scrape.body, content_type=scrape.content_type, headers=headers)

    return (Route(method="GET", path="/metrics", handler=show),)
