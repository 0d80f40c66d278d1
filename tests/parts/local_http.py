"""Requests to servers on this machine, without TLS and without a proxy from the environment.

By itself, httpx reads all certificates for each client and for each request outside one, which takes 30 ms.
"""

import ssl
from typing import Any

import httpx

_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def client(**options: Any) -> httpx.Client:
    return httpx.Client(verify=_NO_CERTIFICATES, trust_env=False, **options)


def async_client(**options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(verify=_NO_CERTIFICATES, trust_env=False, **options)


def get(url: str, **options: Any) -> httpx.Response:
    return request("GET", url, **options)


def post(url: str, **options: Any) -> httpx.Response:
    return request("POST", url, **options)


def request(method: str, url: str, **options: Any) -> httpx.Response:
    return httpx.request(method, url, verify=_NO_CERTIFICATES, trust_env=False, **options)
