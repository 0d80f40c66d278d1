"""The APIs of chat models: how requests are written and answers are read.

- `base`: the contract of an API
- `openai`: OpenAI's chat completions, in several dialects
- `anthropic`: Anthropic's Messages
- `ollama`: Ollama's own chat
- `reading`: reads the parts that the answers of all APIs share
- `failures`: reads errors: when to retry, whether credit is exhausted, which feature is missing
- `error_text`: shortens an error of a server to one line, without quotations from the prompt
- `refusals`: remembers the features that an endpoint refused, so that each is requested only once
"""
