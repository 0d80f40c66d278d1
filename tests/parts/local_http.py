"""Requests to servers on this machine. httpx by itself reads all certificates for each request, which takes 30 ms."""

import ssl
from typing import Any

import httpx

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For `verify`, without TLS."""


def get(url: str, **options: Any) -> httpx.Response:
    return request("GET", url, **options)


def post(url: str, **options: Any) -> httpx.Response:
    return request("POST", url, **options)


def request(method: str, url: str, **options: Any) -> httpx.Response:
    return httpx.request(method, url, verify=NO_CERTIFICATES, trust_env=False, **options)
