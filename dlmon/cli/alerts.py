"""`dlmon alerts`: where alerts go, and one of each to see what will come."""

from __future__ import annotations

import click

from dlmon.cli import click_options, shared
from dlmon.exit_codes import DONE, FAILED
from dlmon.options.checks import check_alert
from dlmon.options.run import OPTIONS


@click.command(short_help="Say where alerts go; --test sends one of each.")
@click.option("--test", is_flag=True, help="Send one of each, and show what is sent.")
@click_options.options_of([OPTIONS["alert"]])
@click_options.json_option
def alerts(test: bool, alert: str | None, as_json: bool) -> int:
    """Say where alerts go, which there are and from which figures on; --test sends one of each.

    They are sent for runs that are started with --alert ADDRESS, or where config.toml has a table
    [alerts].
    """
    from dlmon.alerts.settings import AddressError, check_settings
    from dlmon.render.alerts import NO_ADDRESS, print_settings, send_samples

    settings = shared.settings_of(None).alerts
    problem = check_alert(alert)
    if problem is not None:
        raise shared.UserError(problem)
    chosen = settings.chosen(alert)
    if chosen is None and test:
        raise shared.UserError(f"no address is set: {NO_ADDRESS}")
    chosen = chosen or settings
    try:
        check_settings(chosen)
    except AddressError as error:
        raise shared.UserError(str(error)) from None
    if test:
        return DONE if send_samples(chosen, as_json) else FAILED
    print_settings(chosen, as_json)
    return DONE
