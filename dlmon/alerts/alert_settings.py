"""Which alerts are sent, from which figure on, and where. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dlmon.records.record import record
from dlmon.records.words import AlertEvent, Word

OFF = "off"
"""What stands for an address where nothing is to be sent."""
EVENTS = tuple(event.value for event in AlertEvent if event is not AlertEvent.UNKNOWN)
DETAILS = ("brief", "full")
MOST_ADDRESSES = 10
LONGEST_ADDRESS = 2000
EXAMPLE = "https://ntfy.sh/my-topic"


class AddressError(ValueError):
    """Nothing can be sent to an address, or settings are wrong; the message does not repeat it."""


@record(frozen=True)
class AlertSettings:
    """The table `alerts` of config.toml, with what the command line says.

    Attributes:
        url: the addresses that each message goes to.
        command: an argv that gets each message as JSON on its stdin.
        desktop: whether a viewer that is open notifies the desktop.
        detail: brief, or full: with the command, paths and the last lines of output.
        events: those that alerts are sent of.
        stalled_s: a run stalls where no batch ends for this time,
        stalled_steps: and for this many times the median step.
        slower_pct: it is slower below this share of its own throughput,
        slower_s: for this time.
        gpu_idle_pct: a GPU is idle below this utilisation,
        gpu_idle_s: for this time.
        gpu_lost_s: a GPU is lost that gives no readings for this time.
        gpu_hot_s: a GPU is hot that heat throttles for this time.
        disk_pct: a disk is full with less than this share of it left,
        disk_gib: or with fewer GiB than this.
        host_lost_s: a watched host is lost that does not answer for this time.
        over_s: an alert is over once its cause has been gone for this time.
        host: how ssh knows the machine from where the session was started; None for this one.
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
        """Return them with what a command line says of the address; None where nothing is sent."""
        made = replace(self, host=host)
        if address is not None:
            made = replace(made, url=(address,))
        return made if address != OFF and (made.url or made.command or made.desktop) else None

    @classmethod
    def from_fields(cls, job: Mapping[str, Any]) -> AlertSettings:
        """Return the settings that a job carries, as JSON has them."""
        values: dict[str, Any]
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in job.items()}
        return cls(**values)


NUMBERS = tuple(spec.name for spec in fields(AlertSettings) if isinstance(spec.default, float))
_MOST = {"slower_pct": 100.0, "gpu_idle_pct": 100.0, "disk_pct": 100.0}
_LONGEST_S = 7 * 86_400.0


def check_settings(settings: AlertSettings, *, here: bool = True) -> None:
    """Check all that can be known to be wrong before anything starts.

    Where messages are not sent from `here`, this machine may lack a package.

    Raises:
        AddressError: something is.
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
    """What takes messages at an address, and so the body that it wants."""

    JSON = "json"
    NTFY = "ntfy"
    SLACK = "slack"
    DISCORD = "discord"
    TELEGRAM = "telegram"
    APPRISE = "apprise"


@record(frozen=True)
class Address:
    """An address, read.

    Attributes:
        service: what takes messages there.
        text: the address as it is asked, without what only says which service it is.
        name: what may be said of it: no part that could be a secret.
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
    """Read an address.

    Raises:
        AddressError: nothing can be sent there.
    """
    # The settings are read at every start, and most of them name no address.
    from importlib.util import find_spec
    from urllib.parse import parse_qs, urlsplit

    no_address = AddressError(f"an alert needs an address such as {EXAMPLE}")
    scheme = re.match(_SCHEME, text)
    usable = text.isprintable() and not any(map(str.isspace, text))
    if scheme is None or not usable or len(text) > LONGEST_ADDRESS:
        raise no_address
    kind, over = scheme[1].lower(), scheme[2]
    if over is not None and kind not in _NAMED:
        raise AddressError(f"before the + of an address stands one of {', '.join(_NAMED)}")
    if over is None and kind not in ("http", "https"):
        if here and find_spec("apprise") is None:
            raise AddressError(
                f"an address that begins with {kind}:// needs apprise: pip install 'dlmon[alerts]'"
            )
        return Address(Service.APPRISE, text, f"{kind}://")
    plain = text if over is None else text.partition("+")[2]
    try:
        parts = urlsplit(plain)
        name, _ = parts.hostname, parts.port
    except ValueError:
        name = None
    host = name or ""
    service = Service.NTFY if "ntfy" in host.split(".") else _HOSTS.get(host, Service.JSON)
    service = service if over is None else _NAMED[kind]
    if not name or (service is Service.NTFY and not parts.path.strip("/")):
        raise no_address
    if service is Service.TELEGRAM and not parse_qs(parts.query).get("chat_id"):
        raise AddressError(_NO_TELEGRAM_CHAT)
    # A name before the domain may be a secret.
    shown = host if re.fullmatch(_NAMED_HOST, host) else ".".join(host.split(".")[-2:])
    return Address(service, plain, shown)
