from __future__ import annotations

from gateway.simulation.pseudo_text import PseudoPrompt, block_hashes


def test_answer_says_that_it_is_simulated() -> None:
    answer = PseudoPrompt(b"hello", b"").answer(20)
    assert b"".join(answer).startswith(b"[simulated] ")
    assert [len(token) for token in answer] == [4] * 20
    assert b"".join(answer).decode().isprintable()


def test_answer_depends_on_the_prompt_alone() -> None:
    assert PseudoPrompt(b"a", b"").answer(9) == PseudoPrompt(b"a", b"salt").answer(9)
    assert PseudoPrompt(b"a", b"").answer(9) != PseudoPrompt(b"b", b"").answer(9)
    assert PseudoPrompt(b"a", b"").answer(9)[:5] == PseudoPrompt(b"a", b"").answer(5)


def test_blocks_of_a_longer_text_begin_with_those_of_its_prefix() -> None:
    text = bytes(range(256)) * 4
    assert block_hashes(b"", text, 16)[:8] == block_hashes(b"", text[: 8 * 64], 16)


def test_salt_changes_every_block() -> None:
    alice, bob = (block_hashes(salt, bytes(1024), 16) for salt in (b"alice", b"bob"))
    assert not set(alice) & set(bob)


def test_next_turn_begins_with_the_blocks_of_the_answer() -> None:
    """A conversation is found in the cache, its answers included."""
    first = PseudoPrompt(b"<|user|>\nhi<|end|>\n<|assistant|>\n", b"")
    said = first.text + b"".join(first.answer(100))
    following = said + b"<|end|>\n<|user|>\nmore<|end|>\n"
    assert block_hashes(b"", following, 16)[: len(block_hashes(b"", said, 16))] == (
        block_hashes(b"", said, 16)
    )
