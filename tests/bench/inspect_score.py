"""The scoring of as many samples in inspect_ai, for `test_bench_scoring`: its `score()` over a finished log, a scorer that compares.

Run by an interpreter that has inspect_ai: `python inspect_score.py SAMPLES` prints CPU ms a sample of scoring alone; making the log
and the first scoring do not count.
"""

from __future__ import annotations

import sys
import tempfile
import time

from inspect_ai import Task, eval, score
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate

SAMPLES = int(sys.argv[1])


@scorer(metrics=[accuracy()])
def same_set() -> Scorer:
    async def judged(state: TaskState, target: Target) -> Score:
        return Score(value=set(state.output.completion.split()) == set(target.text.split()))

    return judged


def outputs() -> list[ModelOutput]:
    found = [ModelOutput.from_content("mockllm/model", f"db_{n} db_{n % 7}") for n in range(SAMPLES)]
    for output in found:  # else the mock counts tokens, with a tokenizer that it downloads
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return found


with tempfile.TemporaryDirectory() as folder:
    dataset = [Sample(input=f"Which ferry of line {n} is late?", target=f"db_{n} db_1") for n in range(SAMPLES)]
    model = get_model("mockllm/model", custom_outputs=outputs(), memoize=False)
    (log,) = eval(
        Task(dataset=dataset, solver=generate()),
        model=model,
        log_dir=folder,
        display="none",
        score=False,
        max_samples=1,
    )
    assert log.status == "success", log.error
    score(log, same_set(), display="none")
    begun = time.process_time()
    scored = score(log, same_set(), display="none")
    spent = 1000 * (time.process_time() - begun)
assert scored.results is not None
assert scored.results.scores[0].scored_samples == SAMPLES
print(spent / SAMPLES)
