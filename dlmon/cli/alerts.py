"""`dlmon alerts`: show where alerts go, and send samples."""

from __future__ import annotations

import click

from dlmon.alerts.alert_settings import check_settings
from dlmon.cli import click_options, shared
from dlmon.exit_codes import DONE, FAILED
from dlmon.options.run_options import OPTIONS


@click.command(short_help="Say where alerts go; --test sends one of each.")
@click.option("--test", is_flag=True, help="Send one of each, and show what is sent.")
@click_options.options_of([OPTIONS["alert"]])
@click_options.json_option
def alerts(test: bool, alert: str | None, as_json: bool) -> int:
    """Say where alerts go, which there are, and their limits; --test sends one of each.

    They are sent for runs that are started with --alert ADDRESS, or where config.toml has a table
    [alerts].
    """
    from dlmon.render.alert_test import NO_ADDRESS, print_settings, send_samples

    settings = shared.settings_of(None)
    chosen = settings.alerts.chosen(shared.read_checked({"alert": alert}, settings).alert)
    if chosen is None and test:
        raise shared.UserError(f"no address is set: {NO_ADDRESS}")
    chosen = chosen or settings.alerts
    check_settings(chosen)
    if test:
        return DONE if send_samples(chosen, as_json) else FAILED
    print_settings(chosen, as_json)
    return DONE
