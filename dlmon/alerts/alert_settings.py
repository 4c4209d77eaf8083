"""The settings of alerts: events, thresholds and addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dlmon.records.record import record
from dlmon.records.words import AlertEvent, Word

OFF = "off"
"""Given as the address, turns alerts off."""
EVENTS = tuple(event.value for event in AlertEvent if event is not AlertEvent.UNKNOWN)
DETAILS = ("brief", "full")
MOST_ADDRESSES = 10
LONGEST_ADDRESS = 2000
EXAMPLE = "https://ntfy.sh/my-topic"


class AddressError(ValueError):
    """An address or a setting is not valid; the message doesn't repeat the address."""


@record(frozen=True)
class AlertSettings:
    """The table `alerts` of config.toml, with the command line's overrides.

    Attributes:
        url: the addresses that get each message.
        command: an argv that gets each message as JSON on its stdin.
        desktop: whether an open viewer shows a desktop notification.
        detail: brief, or full: with the command, paths and the last lines of output.
        events: the events that alerts are sent for.
        stalled_s: a run is stalled if no batch ends for this time,
        stalled_steps: and for this many times the median step.
        slower_pct: a run is slower below this share of its usual throughput,
        slower_s: for this time.
        gpu_idle_pct: a GPU is idle below this utilisation,
        gpu_idle_s: for this time.
        gpu_lost_s: a GPU is lost after this time without readings.
        gpu_hot_s: a GPU is hot after this time of thermal throttling.
        disk_pct: a disk is nearly full with less than this share free,
        disk_gib: or with less than this free.
        host_lost_s: a watched host is lost after this time without an answer.
        over_s: an alert is over once its cause has been absent for this time.
        host: ssh's name of the session's host, as the starting host knows it; None if local.
    """

    url: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    desktop: bool = False
    detail: str = "brief"
    events: tuple[str, ...] = EVENTS
    stalled_s: float = 60.0
    stalled_steps: float = 10.0
    slower_pct: float = 70.0
    slower_s: float = 300.0
    gpu_idle_pct: float = 5.0
    gpu_idle_s: float = 600.0
    gpu_lost_s: float = 10.0
    gpu_hot_s: float = 120.0
    disk_pct: float = 5.0
    disk_gib: float = 5.0
    host_lost_s: float = 60.0
    over_s: float = 30.0
    host: str | None = None

    def chosen(self, address: str | None, host: str | None = None) -> AlertSettings | None:
        """Return the settings with the command line's `address`; None if alerts are off."""
        if address == OFF:
            return None
        chosen = replace(self, host=host, url=self.url if address is None else (address,))
        return chosen if chosen.url or chosen.command or chosen.desktop else None

    @classmethod
    def from_fields(cls, job: Mapping[str, Any]) -> AlertSettings:
        """Return the settings from a job's JSON."""
        values: dict[str, Any]
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in job.items()}
        return cls(**values)


NUMBERS = tuple(spec.name for spec in fields(AlertSettings) if isinstance(spec.default, float))
_MOST = {"slower_pct": 100.0, "gpu_idle_pct": 100.0, "disk_pct": 100.0}
_LONGEST_S = 7 * 86_400.0


def check_settings(settings: AlertSettings, *, here: bool = True) -> None:
    """Check the settings before anything starts.

    Unless messages are sent from `here`, this host need not have apprise.

    Raises:
        AddressError: a setting is not valid.
    """
    if len(settings.url) > MOST_ADDRESSES:
        raise AddressError(f"alerts go to at most {MOST_ADDRESSES} addresses")
    for address in settings.url:
        address_of(address, here=here)
    if settings.detail not in DETAILS:
        raise AddressError(f"alerts.detail is {' or '.join(DETAILS)}")
    unknown = [event for event in settings.events if event not in EVENTS]
    if unknown:
        raise AddressError(f"alerts.events has one that isn't known; known are {', '.join(EVENTS)}")
    for name in NUMBERS:
        value, most = getattr(settings, name), _MOST.get(name, _LONGEST_S)
        if not 0 <= value <= most:
            raise AddressError(f"alerts.{name} must be from 0 to {most:,.0f}, not {value:g}")


class Service(Word):
    """The kind of service at an address, which decides the body of a request."""

    JSON = "json"
    NTFY = "ntfy"
    SLACK = "slack"
    DISCORD = "discord"
    TELEGRAM = "telegram"
    APPRISE = "apprise"


@record(frozen=True)
class Address:
    """A parsed address.

    Attributes:
        service: the service that takes messages there.
        text: the address to use, without a `service+` prefix.
        name: the part that is shown, which can't be a secret.
    """

    service: Service
    text: str
    name: str


_SCHEME = r"([A-Za-z][A-Za-z0-9.-]*)(?:\+(https?))?://."
_NAMED = {service.value: service for service in Service if service is not Service.APPRISE}
_HOSTS = {
    "hooks.slack.com": Service.SLACK,
    "discord.com": Service.DISCORD,
    "discordapp.com": Service.DISCORD,
    "api.telegram.org": Service.TELEGRAM,
}
_NAMED_HOST = r"localhost|[\d.]+|[0-9a-f:]+"
_NO_TELEGRAM_CHAT = (
    "an address of Telegram is https://api.telegram.org/bot<token>/sendMessage?chat_id=<number>"
)


def address_of(text: str, *, here: bool = True) -> Address:
    """Parse an address.

    Raises:
        AddressError: it is not valid.
    """
    # Imported here: settings are read at every start, and most have no address.
    from importlib.util import find_spec
    from urllib.parse import parse_qs, urlsplit

    no_address = AddressError(f"an alert needs an address such as {EXAMPLE}")
    scheme = re.match(_SCHEME, text)
    usable = text.isprintable() and not any(map(str.isspace, text))
    if scheme is None or not usable or len(text) > LONGEST_ADDRESS:
        raise no_address
    kind, transport = scheme[1].lower(), scheme[2]
    if transport is not None and kind not in _NAMED:
        raise AddressError(f"before the + of an address stands one of {', '.join(_NAMED)}")
    if transport is None and kind not in ("http", "https"):
        if here and find_spec("apprise") is None:
            raise AddressError(
                f"an address that begins with {kind}:// needs apprise: pip install 'dlmon[alerts]'"
            )
        return Address(Service.APPRISE, text, f"{kind}://")
    url = text if transport is None else text.partition("+")[2]
    try:
        parts = urlsplit(url)
        name, _ = parts.hostname, parts.port
    except ValueError:
        name = None
    host = name or ""
    service = Service.NTFY if "ntfy" in host.split(".") else _HOSTS.get(host, Service.JSON)
    service = service if transport is None else _NAMED[kind]
    if not name or (service is Service.NTFY and not parts.path.strip("/")):
        raise no_address
    if service is Service.TELEGRAM and not parse_qs(parts.query).get("chat_id"):
        raise AddressError(_NO_TELEGRAM_CHAT)
    # A subdomain may be a secret.
    domain = host if re.fullmatch(_NAMED_HOST, host) else ".".join(host.split(".")[-2:])
    return Address(service, url, domain)
