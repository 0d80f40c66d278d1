FROM python:3.12.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/streamjury
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY judges judges
COPY sinks sinks
COPY stream stream
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && /opt/streamjury/bin/pip install --no-cache-dir --constraint constraints.txt "$(echo /wheels/*.whl)[encoder,otel,postgres,registry]"

FROM python:3.12.11-slim-bookworm
# Numbered, so that an orchestrator can tell that it is not root; without a home or a shell, because it needs neither.
RUN groupadd --system --gid 10001 streamjury \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin streamjury \
    && install --directory --owner 10001 --group 10001 /var/lib/streamjury
COPY --from=build /opt/streamjury /opt/streamjury
# Nothing is written but temporary files in /tmp and the archive, so that the root file system can be read-only.
ENV PATH=/opt/streamjury/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    TMPDIR=/tmp \
    STREAMJURY__HTTP__HOST=0.0.0.0 \
    STREAMJURY__ARCHIVE__URL=sqlite:////var/lib/streamjury/archive.db
# Mount a named volume here, or set STREAMJURY__ARCHIVE__URL to a PostgreSQL database.
VOLUME /var/lib/streamjury
WORKDIR /etc/streamjury
USER 10001:10001
# `streamjury run` and every stage; `streamjury webhook`.
EXPOSE 9464 9095
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9464/healthz', timeout=4)"]
ENTRYPOINT ["streamjury"]
CMD ["run"]
