from __future__ import annotations

import ipaddress

import pytest

from gateway.services.addresses import clean_base_url, is_allowed
from tenants.errors import Invalid

LOOPBACK = ("127.0.0.0/8", "::1/128")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("http://10.0.0.7:8000", "http://10.0.0.7:8000"),
        ("https://10.0.0.7", "https://10.0.0.7"),
        ("HTTP://10.0.0.7:8000/v1/", "http://10.0.0.7:8000"),
        ("http://192.168.1.9:80/", "http://192.168.1.9:80"),
        ("http://[fd12::7]:8000", "http://[fd12::7]:8000"),
        ("http://GPU-7.invalid:8000", "http://gpu-7.invalid:8000"),
        ("http://8.8.8.8", "http://8.8.8.8"),
    ],
)
def test_servers_of_private_and_public_networks_are_accepted(written: str, kept: str) -> None:
    assert clean_base_url(written, ()) == kept


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "http://127.1:8000",
        "http://2130706433",
        "http://017700000001",
        "http://0x7f000001",
        "http://0x7f.0.0.1",
        "http://127.0.0.01",
        "http://localhost:8000",
        "http://localhost.:8000",
        "http://[::1]:8000",
        "http://[::ffff:127.0.0.1]",
        "http://[::ffff:7f00:1]",
        "http://[::]:8000",
        "http://0.0.0.0",
        "http://0",
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]",
        "http://[64:ff9b::169.254.169.254]",
        "http://[2002:a9fe:a9fe::]",
        "http://[fe80::1]",
        "http://[fe80::1%25eth0]",
        "http://[fd00:ec2::254]",
        "http://100.100.100.200",
        "http://168.63.129.16",
        "http://224.0.0.1",
        "http://255.255.255.255",
        "http://user:word@10.0.0.7",
        "http://10.0.0.7@127.0.0.1",
        "http://10.0.0.7\\@127.0.0.1",
        "http://10.0.0.7#@127.0.0.1",
        "http://10.0.0.7?x=1",
        "http://10.0.0.7/other/path",
        "http://10.0.0.7:0",
        "http://10.0.0.7:99999",
        "http://10.0.0.7:port",
        "http://",
        "http:///v1",
        "10.0.0.7:8000",
        "gopher://10.0.0.7",
        "file:///etc/passwd",
        "ftp://10.0.0.7",
        "unix:///run/server.sock",
        "http://10.0.0.7\r\nX: y",
        "http://10.0.0.7 ",
        "http://１２７.0.0.1",
        "http://①.0.0.1",
        "http://ex_ample",
        "http://-a.example",
        "http://a..example",
        "http://" + "a" * 400,
    ],
)
def test_forged_and_special_addresses_are_refused(url: str) -> None:
    """S20: tricks with decimal, octal, hex, mapped, trailing dots, credentials, other schemes."""
    with pytest.raises(Invalid):
        clean_base_url(url, ())


def test_a_listed_network_is_allowed_and_only_it() -> None:
    assert clean_base_url("http://127.0.0.1:8000", LOOPBACK) == "http://127.0.0.1:8000"
    assert clean_base_url("http://localhost:8000", LOOPBACK) == "http://localhost:8000"
    with pytest.raises(Invalid):
        clean_base_url("http://169.254.169.254", LOOPBACK)


def test_every_address_that_an_ipv6_form_carries_must_be_allowed() -> None:
    assert not is_allowed(ipaddress.ip_address("2001:0:a9fe:a9fe::1"), ())
    assert is_allowed(ipaddress.ip_address("::ffff:10.0.0.7"), ())
