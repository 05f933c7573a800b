"""Broker URLs: taken apart with clear errors, shown without credentials."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from kombu.transport import TRANSPORT_ALIASES

from relay.broker import BrokerAddressError
from relay.kombu_broker.traits import AMQP_SCHEMES, REDIS_SCHEMES, SQL_SCHEMES
from uow.suggestion import did_you_mean

_REFUSED: Final = {
    "librabbitmq": "it has no publisher confirms; write amqp://",
    "qpid": "kombu's Qpid transport has no publisher confirms",
    "pyro": "kombu's Pyro transport keeps nothing",
    "local": "local: is served without a broker and takes no address; write just 'local:'",
}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A checked broker URL: `display_url` has no user, password or query; `kombu_urls` have, unseen."""

    scheme: str
    display_url: str
    kombu_urls: tuple[str, ...] = field(repr=False)
    transport_options: Mapping[str, Any] = field(repr=False, default_factory=dict)

    def __str__(self) -> str:
        return self.display_url


def parse_address(url: str) -> BrokerAddress:
    """The address in `url`; several separated by `;` are tried in turn (failover).

    Raises BrokerAddressError, whose text never holds any part of the URL but its scheme.
    """
    addresses = [_parse_one(part.strip()) for part in url.split(";")]
    first = addresses[0]
    if len(addresses) == 1:
        return first
    if any(address.scheme != first.scheme for address in addresses):
        schemes = ", ".join(dict.fromkeys(address.scheme for address in addresses))
        raise BrokerAddressError(f"all broker URLs of a failover list must have one scheme, not {schemes}")
    return BrokerAddress(
        scheme=first.scheme,
        display_url=";".join(address.display_url for address in addresses),
        kombu_urls=tuple(url for address in addresses for url in address.kombu_urls),
        transport_options=first.transport_options,
    )


def _parse_one(url: str) -> BrokerAddress:
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise BrokerAddressError(
            "a broker URL must look like scheme://user:password@host:port/virtual-host (or be 'local:'); "
            f"this one has no '://'{_scheme_hint(url)}"
        )
    transport, plus, driver = scheme.partition("+")
    _check_scheme(transport)
    if plus:
        inner = _split(f"{driver}://{rest}", transport)
        display = f"{transport}+{_displayed(inner)}"
        return BrokerAddress(transport, display, (url,))
    if transport in SQL_SCHEMES:
        raise BrokerAddressError(f"write {transport}+ before a database URL, like {transport}+sqlite:///file")
    parts = _split(url, transport)
    if transport == "filesystem":
        return _filesystem(parts)
    options = _query_options(parts, transport)
    _check_path(parts, transport)
    address = parts._replace(query="", fragment="")
    # kombu would take librabbitmq for amqp:// where that is installed
    wire_scheme = "pyamqp" if transport == "amqp" else transport
    kombu_url = f"{wire_scheme}://{address.netloc}{address.path}"
    return BrokerAddress(transport, _displayed(address), (kombu_url,), options)


def _scheme_hint(url: str) -> str:
    head = url.partition(":")[0]
    return f"; write {head}://" if head in TRANSPORT_ALIASES else ""


def _check_scheme(scheme: str) -> None:
    if scheme in _REFUSED:
        raise BrokerAddressError(f"broker scheme {scheme!r} is refused: {_REFUSED[scheme]}")
    if scheme not in TRANSPORT_ALIASES:
        known = [name for name in (*TRANSPORT_ALIASES, "local") if name not in _REFUSED or name == "local"]
        shown = scheme if scheme.isascii() and scheme.replace("-", "").isalnum() and len(scheme) < 30 else "?"
        hint = "; RabbitMQ is amqp://" if scheme.startswith("rabbit") else did_you_mean(shown, known)
        raise BrokerAddressError(f"unknown broker scheme {shown!r}{hint}")


def _split(url: str, scheme: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port  # raises for a port that is no number
    except ValueError:
        port, parts = 0, urlsplit("")
    if port == 0:
        raise BrokerAddressError(
            f"the {scheme} broker URL is malformed: the port must be 1 to 65535, an IPv6 host must be in "
            "brackets, and '/', '?', '#' and '@' in a user or password must be percent-encoded"
        )
    if any(character.isspace() for character in parts.netloc):
        raise BrokerAddressError(f"the {scheme} broker URL is malformed: there is white space in it")
    return parts


def _displayed(parts: SplitResult) -> str:
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _check_path(parts: SplitResult, scheme: str) -> None:
    database = unquote(parts.path).strip("/")
    if scheme in {"redis", "rediss"} and database and not (database.isascii() and database.isdigit()):
        raise BrokerAddressError(
            f"the {scheme} broker URL must end in a database number, like {scheme}://host:6379/0"
        )


def _query_options(parts: SplitResult, scheme: str) -> dict[str, Any]:
    options = {name: _value(text) for name, text in parse_qsl(parts.query, keep_blank_values=True)}
    known: tuple[str, ...] = ()
    if scheme in REDIS_SCHEMES:
        known = (
            "global_keyprefix",
            "visibility_timeout",
            "socket_timeout",
            "socket_connect_timeout",
            "socket_keepalive",
            "health_check_interval",
            "client_name",
            "master_name",
        )
    elif scheme not in AMQP_SCHEMES:
        return options
    for name in options:
        if name not in known:
            raise BrokerAddressError(
                f"unknown option {name!r} in the {scheme} broker URL{did_you_mean(name, known)}"
            )
    return options


def _value(text: str) -> Any:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _filesystem(parts: SplitResult) -> BrokerAddress:
    if parts.netloc or not parts.path.strip("/"):
        raise BrokerAddressError(
            "the filesystem broker URL must name an absolute folder: filesystem:///var/lib/myapp/broker"
        )
    folder = Path(unquote(parts.path))
    options = {
        "data_folder_in": str(folder / "messages"),
        "data_folder_out": str(folder / "messages"),
        "control_folder": str(folder / "control"),
        "processed_folder": str(folder / "processed"),
    }
    return BrokerAddress("filesystem", f"filesystem://{folder}", ("filesystem://",), options)
