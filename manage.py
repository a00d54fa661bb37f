#!/usr/bin/env python
"""Django's command line; every command of the product is one of its subcommands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from config.env import EnvError

    try:
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except EnvError as mistakes:
        sys.exit(str(mistakes))


if __name__ == "__main__":
    main()
