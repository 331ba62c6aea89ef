"""What runs side by side in a routing layer: one unanswered call costs its own item, and nothing is left running behind an error."""

from __future__ import annotations

import asyncio

import pytest

from tasks_lib.models.chat import BackendMisconfigured, ProviderUnavailable
from tasks_lib.routing.layer import _each


class Items:
    """Work that notes which items began and ended; those in `faults` raise after they gave way once."""

    def __init__(self, faults: dict[int, Exception]) -> None:
        self.faults, self.begun, self.ended = faults, list[int](), list[int]()

    async def __call__(self, item: int) -> dict[str, int]:
        self.begun.append(item)
        await asyncio.sleep(0)
        self.ended.append(item)
        if item in self.faults:
            raise self.faults[item]
        return {"item": item}


async def test_results_come_in_order() -> None:
    assert await _each(range(5), 2, Items({})) == [{"item": n} for n in range(5)]


async def test_one_unanswered_call_costs_its_own_item_alone() -> None:
    items = Items({1: ProviderUnavailable("gone")})
    with pytest.raises(ProviderUnavailable, match="gone"):
        await _each(range(20), 4, items)
    assert sorted(items.begun) == sorted(items.ended) == list(range(20))


async def test_an_endpoint_that_is_down_and_a_wrong_spec_start_nothing_new() -> None:
    down = Items({n: ProviderUnavailable(str(n)) for n in range(20)})
    with pytest.raises(ProviderUnavailable, match=r"^0$"):
        await _each(range(20), 4, down)
    assert sorted(down.begun) == sorted(down.ended)
    assert 4 <= len(down.begun) < 9
    wrong = Items({0: ProviderUnavailable("gone"), 1: BackendMisconfigured("no such model")})
    with pytest.raises(BackendMisconfigured):
        await _each(range(20), 2, wrong)
    assert sorted(wrong.begun) == sorted(wrong.ended)
    assert len(wrong.begun) < 6
