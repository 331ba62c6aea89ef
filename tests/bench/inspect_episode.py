"""The same loop in inspect_ai, for `test_bench_episode`: its mock model, one plain tool, its basic ReAct agent, its log file.

Run by an interpreter that has inspect_ai: `python inspect_episode.py TURNS EPISODES` prints CPU ms an episode. Every sample is
one episode; start-up and the first evaluation do not count.
"""

from __future__ import annotations

import sys
import tempfile
import time

from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.tool import Tool, tool

TURNS, EPISODES = int(sys.argv[1]), int(sys.argv[2])
SAID = "x" * 4000


@tool
def look() -> Tool:
    async def execute(database_id: str) -> str:
        """Look at one database.

        Args:
            database_id: its id.
        """
        return SAID + database_id

    return execute


def outputs(samples: int) -> list[ModelOutput]:
    calls = [
        *(ModelOutput.for_tool_call("mockllm/model", "look", {"database_id": f"db_{n}"}) for n in range(TURNS - 1)),
        ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": "db_1"}),
    ]
    for call in calls:  # else the mock counts tokens, with a tokenizer that it downloads
        call.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return calls * samples


def run(samples: int) -> float:
    """CPU ms of one evaluation with so many samples, one after the other."""
    model = get_model("mockllm/model", custom_outputs=outputs(samples), memoize=False)
    dataset = [Sample(input=f"Which ferry of line {n} is late?", target="db_1") for n in range(samples)]
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(
            Task(dataset=dataset, solver=react(tools=[look()])),
            model=model,
            log_dir=folder,
            display="none",
            max_samples=1,
        )
        spent = 1000 * (time.process_time() - begun)
        assert log.status == "success", log.error
        assert log.samples is not None
        said = [message.role for message in log.samples[0].messages]
    assert said.count("assistant") == TURNS, said
    return spent


run(2)
print((run(EPISODES) - run(1)) / (EPISODES - 1))
