"""A hard budget of model calls and money for everything that one process starts (known fault M02: unknown is never 0).

A call is booked before it is sent, with the most it can cost; what it did cost replaces that when it is done. So the call that
would exceed the budget is never sent, and nothing already stored is touched. Replayed calls and offline policies are free.
Calls to endpoints are made in the main process only (`store.jobs`), which is why one process can keep the count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import BackendMisconfigured, ChatRequest, ProviderUnavailable

CHARACTERS_A_TOKEN = 2
"""Fewer characters than tokenizers put into one token of prompts on average, so that a booking is no less than the bill."""


class BudgetSpent(ProviderUnavailable):
    """The next call would exceed the budget. It was not sent; the item stays not done, and a later run goes on."""


class Budget:
    """`max_calls` and `max_cost` (US dollars); 0 means no limit. `calls`, `cost`: what was sent and what it cost so far."""

    def __init__(self, max_calls: int = 0, max_cost: float = 0.0) -> None:
        self.max_calls, self.max_cost = max_calls, max_cost
        self.calls, self.cost, self.booked = 0, 0.0, 0.0

    def book(self, spec: BackendSpec, request: ChatRequest, price: tuple[float, float] | None) -> float:
        """The right to send one call: the most it can cost in US dollars, 0 where no cost limit is set.

        `price`: US dollars per million tokens in and out, None when unknown. Raises BudgetSpent, and BackendMisconfigured when a
        cost limit is set and nobody knows what the backend costs.
        """
        if self.max_cost and price is None:
            raise BackendMisconfigured(
                f"Backend {spec.name}: --max-cost is {self.max_cost:g} and the price of {spec.model} is unknown, expected a price so "
                "that the limit can be kept; give input_price and output_price in the spec, or limit by --max-calls."
            )

        most = 0.0
        if self.max_cost and price is not None:
            characters = sum(len(message.content) for message in request.messages)
            tokens = characters / CHARACTERS_A_TOKEN
            most = (tokens * price[0] + (request.max_tokens or spec.max_tokens) * price[1]) / 1e6
        if self.max_calls and self.calls >= self.max_calls:
            raise BudgetSpent(self._spent(f"--max-calls is {self.max_calls} and {self.calls} calls were sent"))
        if self.max_cost and self.cost + self.booked + most > self.max_cost:
            raise BudgetSpent(
                self._spent(
                    f"--max-cost is {self.max_cost:g} US dollars, {self.cost:.4f} are spent, and the next call of {spec.name} can "
                    f"cost up to {most:.4f}"
                )
            )
        self.calls += 1
        self.booked += most
        return most

    def settle(self, booked: float, cost: float | None) -> None:
        """The call that `book` gave `booked` for is over. An unknown cost (a failed call, a reply without usage) counts as the most it can have been."""
        self.booked -= booked
        self.cost += booked if cost is None else cost

    def _spent(self, what: str) -> str:
        return f"the budget is spent: {what}; everything computed is kept, run the same command with a larger limit to go on."


_current = Budget()


def current() -> Budget:
    """The budget of this process; without a limit until `limited` sets one."""
    return _current


@contextmanager
def limited(max_calls: int, max_cost: float) -> Iterator[None]:
    """Everything inside shares one budget; two zeros keep the one around it."""
    global _current
    before = _current
    if max_calls or max_cost:
        _current = Budget(max_calls, max_cost)
    try:
        yield
    finally:
        _current = before
