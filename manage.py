#!/usr/bin/env python
"""Django's command line; every command of the product is one of its subcommands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    from config.env import plain_exit

    with plain_exit():
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
