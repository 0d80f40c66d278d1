"""The keys of a judge for its model: the address, the API key and the sampling parameters."""

import re
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, FiniteFloat, SecretStr, ValidationInfo, field_serializer, field_validator

from judges.criteria.problems import InconsistentError
from judges.models.endpoint import ModelOptions
from judges.models.redaction import is_private
from judges.models.wire.base import Wire
from stream.config.judge_kinds.base import JudgeSection
from stream.config.section import MASK, check_web_address

# Longer than any key; a larger file is not a key file.
_MAX_KEY_BYTES = 64 * 1024


class EndpointSection(JudgeSection):
    """A model behind an endpoint; the kind says which API the endpoint speaks and where it is by default."""

    wire: ClassVar[Wire]
    """The API of its endpoint."""

    example: ClassVar[str]
    """An example of a valid address."""

    model: str = Field(min_length=1, max_length=256, description="Model name, as used by the endpoint.")
    base_url: str | None = Field(default=None, max_length=2048, description="Endpoint URL.")
    api_key: SecretStr | None = Field(default=None, description="API key, only as an environment reference: ${NAME}.")
    api_key_file: str | None = Field(
        default=None,
        max_length=4096,
        description="File with the API key, instead of api_key; relative to the working directory.",
    )
    proxy: str | None = Field(
        default=None,
        max_length=2048,
        description="Proxy URL for the endpoint; null: no proxy (proxy environment variables are ignored).",
    )
    timeout_seconds: FiniteFloat = Field(
        default=30.0, gt=0, le=600, description="Timeout of one call, from when it is sent."
    )
    connect_seconds: FiniteFloat = Field(default=5.0, gt=0, le=600, description="Timeout for connecting.")
    read_seconds: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=600,
        description="Longest time without any data from the endpoint; null: same as timeout_seconds.",
    )
    temperature: FiniteFloat | None = Field(
        default=0.0, ge=0, le=2, description="Sampling temperature; null: the endpoint's default."
    )
    seed: int | None = Field(
        default=0, ge=0, le=2**63 - 1, description="Seed sent to endpoints that support one; null: no seed."
    )
    max_tokens: int = Field(default=512, ge=1, le=131_072, description="Maximum tokens per answer of the judge.")
    structured: bool = Field(
        default=True, description="Request JSON output in the strictest form the endpoint supports."
    )

    @field_validator("model")
    @classmethod
    def _check_printable(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("must be a name in printable characters")
        return value

    @field_validator("temperature")
    @classmethod
    def _check_temperature(cls, value: float | None) -> float | None:
        return cls._refuse_too_hot(value)

    @classmethod
    def _refuse_too_hot(cls, temperature: float | None) -> float | None:
        if temperature is not None and temperature > cls.wire.max_temperature:
            raise ValueError(f"must be at most {cls.wire.max_temperature:g} for this API")
        return temperature

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        check_web_address(value, example=cls.example, secrets="put the key in api_key")
        if value.rstrip("/").lower().endswith(cls.wire.forbidden_endings):
            raise ValueError(f"must end before {cls.wire.path}, which is appended, as in {cls.example}")
        return value

    @field_validator("proxy")
    @classmethod
    def _check_proxy(cls, value: str | None) -> str | None:
        allowed = "proxies with a password are not supported"
        return None if value is None else check_web_address(value, example="http://proxy:3128", secrets=allowed)

    @field_validator("api_key")
    @classmethod
    def _check_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("must be visible ASCII characters without spaces or line breaks")
        return value

    @field_validator("api_key_file")
    @classmethod
    def _check_single_key(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("api_key") is not None:
            raise ValueError("cannot be used together with api_key; remove one of them")
        return value

    @field_serializer("api_key", when_used="json-unless-none")
    def _hide_secrets(self, value: SecretStr) -> str:
        return MASK

    @property
    @abstractmethod
    def address(self) -> str:
        """The address of the endpoint, configured or by default."""

    @property
    def provider(self) -> str:
        """The service's name in OpenTelemetry's conventions, if they have one."""
        return self.kind

    @property
    def is_private(self) -> bool:
        """Whether the endpoint is on this machine or a private network."""
        return is_private(urlsplit(self.address).hostname or "")

    def endpoint_options(self) -> ModelOptions:
        """Return these keys as arguments of the models' constructors; reads the key file, if there is one."""
        return {
            "api_key": self._read_key(),
            "timeout_seconds": self.timeout_seconds,
            "connect_seconds": self.connect_seconds,
            "read_seconds": self.read_seconds,
            "proxy": self.proxy,
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "structured": self.structured,
        }

    def _read_key(self) -> str | None:
        """Return the API key, from the configuration or its file; error messages never quote the file's content."""
        if self.api_key_file is None:
            return self.api_key.get_secret_value() if self.api_key else None
        try:
            with Path(self.api_key_file).open("rb") as file:
                key = file.read(_MAX_KEY_BYTES).strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            problem = f"cannot be read: {reason} ({self.api_key_file})"
        else:
            if re.fullmatch(rb"[!-~]+", key):
                return key.decode("ascii")
            problem = f"must contain only a key, in visible ASCII characters ({self.api_key_file})"
        raise InconsistentError([(("api_key_file",), problem)])
