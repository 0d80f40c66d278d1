"""The section `input.registry`: the Schema Registry that describes typed input records."""

import re
from typing import Literal

from pydantic import Field, FiniteFloat, SecretStr, ValidationInfo, field_validator

from stream.config.section import Section, check_web_address

Encoding = Literal["json", "confluent-avro", "confluent-protobuf", "confluent-json"]


class RegistryConfig(Section):
    """Schema Registry for input records in a Confluent encoding."""

    url: str | None = Field(
        default=None,
        max_length=4096,
        description="Addresses of the Schema Registry, comma-separated; each is tried in turn.",
        examples=["https://registry.example.com", "http://apicurio:8080/apis/ccompat/v7"],
    )
    user: str | None = Field(
        default=None, max_length=1024, description="User name, or API key, for basic authentication."
    )
    password: SecretStr | None = Field(
        default=None, min_length=1, description="Password, or API secret, of the user; write it as ${NAME}."
    )
    token: SecretStr | None = Field(
        default=None, min_length=1, description="Bearer token in place of user and password; write it as ${NAME}."
    )
    ca_file: str | None = Field(
        default=None,
        max_length=4096,
        description="File with the certificates that sign the registry's; null: the usual public ones.",
    )
    timeout_seconds: FiniteFloat = Field(
        default=5.0, ge=0.1, le=60, description="Timeout of a request; a registry that does not answer is asked again."
    )
    bytes: Literal["base64", "utf-8"] = Field(
        default="base64", description="How `bytes` in Avro and Protobuf records are read: as base64, or as text."
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        addresses = [address.strip() for address in value.split(",")]
        for address in addresses:
            check_web_address(
                address, example="https://registry.example.com", secrets="use user and password, or token"
            )
        return ",".join(addresses)

    @field_validator("user")
    @classmethod
    def _check_user(cls, value: str | None) -> str | None:
        if value is not None and ":" in value:
            raise ValueError("must not contain ':'")
        return value

    @field_validator("password")
    @classmethod
    def _check_password(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if "user" in info.data and (value is None) != (info.data["user"] is None):
            raise ValueError("must be set together with user")
        return value

    @field_validator("token")
    @classmethod
    def _check_token(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is not None and info.data.get("user") is not None:
            raise ValueError("must not be set together with user and password")
        if value is not None and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("must be visible ASCII characters without spaces")
        return value
