"""The assembler: turns OpenTelemetry spans into interactions, one for each trace of a RAG service.

- `stage`: reads span topics and writes interactions, trace outcomes and offsets in transactions
- `partition`: the open and finished traces of one partition, and its offsets
- `recovery`: what an assembler must know about a partition's past: the offset note and the finished traces
- `clock`: the time of a partition, by which traces are quiet or too old
- `open_traces`: traces that are not finished, with their spans
- `assembling`: makes an interaction of the spans of a trace, or names the reason why there is none
- `otlp`: decodes OTLP records, and splits them by trace
- `conventions`: reads the attributes of GenAI, OpenInference and OpenLLMetry spans
"""
