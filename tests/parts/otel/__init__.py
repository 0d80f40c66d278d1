"""OpenTelemetry as services use it: instrumented pipelines and a real Collector.

- `builder.yaml` and `build.sh`: build the Collector (`make collector`).
- `collector`: runs it.
- `versions.txt`: the packages of the pipelines' environment (`make instrumented`).
- `pipelines`: the pipelines; runs in that environment, not in that of the tests.
- `services`: runs the pipelines against a scripted model.
- `capture`: writes down the spans of every pipeline, for tests that need neither.
"""
