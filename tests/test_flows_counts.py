"""Cost and tokens of a run: unknown is counted, never zero (known fault M02)."""

from __future__ import annotations


def test_m02_unknown_costs_and_tokens_are_counted_not_summed_as_zero() -> None:
    from flows.counts import cost_of

    metas = [
        {"cost": 0.002, "prompt_tokens": 10, "completion_tokens": 5},
        {"cost": None, "prompt_tokens": None, "completion_tokens": None},
        {"cost": None, "prompt_tokens": 38, "completion_tokens": 24},
    ]
    assert cost_of(metas) == {"known_usd": 0.002, "unknown_calls": 2, "tokens": 77, "unknown_token_calls": 1}
