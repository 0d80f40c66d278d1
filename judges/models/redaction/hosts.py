"""Decides which hosts are private: text sent there stays on this machine or in its network."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_IPV4 = ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16")
_IPV6 = ("::1/128", "fc00::/7", "fe80::/10")
_NETWORKS = tuple(map(ip_network, (*_IPV4, *_IPV6)))
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Resolvers read these as an address in one number: 134744072 and 0x08080808 are 8.8.8.8.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PRIVATE_DOMAINS = frozenset({"local", "internal", "localhost"})


def is_private(host: str) -> bool:
    """Return whether text sent to a host stays private.

    Private are loopback, private and link-local addresses, names of one label, and names under local, internal and
    localhost. The name decides; it is not resolved. A name with other than ASCII letters is never private: some of its
    characters may be read as dots.
    """
    name = host.strip("[]") if host.startswith("[") and host.endswith("]") else host
    address = _address(name)
    if address is not None:
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return any((mapped or address) in network for network in _NETWORKS)
    labels = name.lower().removesuffix(".").split(".")
    if not all(_LABEL.fullmatch(label) for label in labels) or _NUMBER.fullmatch(labels[-1]):
        return False
    # A single label with a dot after it is a public top-level domain.
    return labels[-1] in _PRIVATE_DOMAINS or (len(labels) == 1 and not name.endswith("."))


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
