"""Words of the command line name hosts as ssh and Slurm take them; a wrong word gives one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.collect.hosts import Destination, expand, parse
from tui.errors import UsageError


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        (["node1"], ["node1"]),
        (["node[01-03,20]"], ["node01", "node02", "node03", "node20"]),
        (["r[1-2]n[8-10]"], ["r1n8", "r1n9", "r1n10", "r2n8", "r2n9", "r2n10"]),
        (["root@n[1-2].site"], ["root@n1.site", "root@n2.site"]),
        (["ssh://a@n[1-2]:2222"], ["ssh://a@n1:2222", "ssh://a@n2:2222"]),
        (["b", "a", "b", "[099-101]"], ["b", "a", "099", "100", "101"]),
        (["ssh://[::1]:22", "fe80::1%eth0"], ["ssh://[::1]:22", "fe80::1%eth0"]),
    ],
)
def test_ranges_are_written_out_in_order_each_host_once(words: list[str], hosts: list[str]):
    assert expand(*words) == hosts


@pytest.mark.parametrize(
    ("word", "destination"),
    [
        ("node1", Destination("node1")),
        ("me@node1", Destination("node1", "me")),
        ("me@dom.ain@node1", Destination("node1", "me@dom.ain")),
        ("ssh://me@node1:2222/", Destination("node1", "me", 2222)),
        ("ssh://node1", Destination("node1")),
        ("ssh://m%65@[fe80::1]:22", Destination("fe80::1", "me", 22)),
    ],
)
def test_a_destination_is_split(word: str, destination: Destination):
    assert parse(word) == destination


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("", "names no host"),
        ("me@", "names no host"),
        ("@node1", "no user name"),
        ("-oProxyCommand=reboot", "cannot begin with a dash"),
        ("me@-oProxyCommand=reboot", "cannot begin with a dash"),
        ("node 1", "is no host name"),
        ("node1;reboot", "is no host name"),
        ("node[1-", "is no host name"),
        ("node[]", "'nothing' in brackets"),
        ("node[a-c]", "'a-c' in brackets"),
        ("node[3-1]", "runs backwards"),
        ("node[1-99999]", "more than 4096"),
        ("n[1-100]m[1-100]", "more than 4096"),
        ("ssh://node1:0", "1 to 65535"),
        ("ssh://node1:99999", "1 to 65535"),
        ("ssh://node1:", "1 to 65535"),
        ("ssh://node1/path", "is no ssh address"),
        ("ssh://", "names no host"),
    ],
)
def test_a_wrong_word_gives_one_sentence_that_names_it(word: str, says: str):
    with pytest.raises(UsageError, match=says) as caught:
        expand(word)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet="a1[]-,@:/ \ts%.\n", max_size=20) | st.text(max_size=12))
def test_no_word_raises_anything_else(word: str):
    try:
        hosts = expand(word)
    except UsageError:
        return
    assert all(host and not host.startswith("-") for host in hosts)
