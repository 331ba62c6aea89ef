"""`dsabench backends probe`, a YAML file of backends, and the budget from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import Said
from servers import model_server, says

from flows.cli_support import BadUsage, backends_of

Command = Callable[..., Said]
CALL = [{"id": "c", "type": "function", "function": {"name": "ready", "arguments": "{}"}}]


def test_the_example_file_is_read_and_named_by_entry(tmp_path: Path) -> None:
    example = Path(__file__).parents[1] / "deployments" / "backends.example.yaml"
    assert [spec.name for spec in backends_of(None, example)][:2] == ["kimi-k3", "deepseek-v4-pro"]
    bad = tmp_path / "bad.yaml"
    for text, reason in (
        ("- {name: a, model: m}\n- {name: b}\n", r"bad.yaml, entry 2: model: field required"),
        ("- {name: a, model: m, api_key: s}\n", r"entry 1: api_key holds a key in clear"),
        ("name: a\n", "holds dict, expected a YAML list"),
        ("", "holds nothing, expected a YAML list"),
        ("- {name: [\n", "is no YAML"),
        ("- {name: a, model: m}\n- {name: a, model: n}\n", "hold one twice"),
    ):
        bad.write_text(text)
        with pytest.raises(BadUsage, match=reason):
            backends_of(None, bad)
    with pytest.raises(BadUsage, match="cannot be read"):
        backends_of(None, tmp_path / "none.yaml")


def test_probe_says_what_each_backend_is(dsabench: Command, tmp_path: Path) -> None:
    with model_server(says("ready")) as words, model_server(says(None, tool_calls=CALL, usage=None)) as tools:
        entries = [
            {"name": "words", "model": "hosted_vllm/w", "api_base": words.url, "input_price": 1.0, "output_price": 2.0},
            {
                "name": "tools",
                "model": "hosted_vllm/t",
                "api_base": tools.url,
                "protocol": "native",
                "temperature": None,
            },
            {"name": "mute", "model": "hosted_vllm/m", "api_base": words.url, "protocol": "native"},
        ]
        file = tmp_path / "backends.yaml"
        file.write_text(yaml.safe_dump(entries))
        said = dsabench(
            "backends", "probe", "--backends", str(file), "--backend", '{"name": "o", "model": "offline/bm25"}'
        )
        assert said.code == 0, said
        assert (len(words.requests), len(tools.requests)) == (2, 1)
        assert [tool["function"]["name"] for tool in tools.requests[0]["tools"]] == ["ready"]
        asked = dsabench("backends", "probe", "--backends", str(file), "--json").json["backends"]
    lines = {line.split(":")[0]: line for line in said.out.splitlines()}
    assert "temperature 0; tool calling text; usage known; cost override" in lines["words"]
    assert "temperature provider's default; tool calling native; usage unknown; cost unknown" in lines["tools"]
    assert "tool calling none seen" in lines["mute"]
    assert "in process" in lines["o"]
    assert [report["tool_calling"] for report in asked] == ["text", "native", "none seen"]
    gone = dsabench("backends", "probe", "--backends", str(file), "--json")
    assert gone.code == 1
    assert not any(report["reachable"] for report in gone.json["backends"])


def test_probe_without_a_backend_is_bad_usage(dsabench: Command) -> None:
    said = dsabench("backends", "probe")
    assert (said.code, said.err.strip()) == (
        2,
        "no backend was given, expected --backend or --backends FILE; name at least one.",
    )


@pytest.mark.timeout(300)
def test_a_study_stops_at_its_budget_and_goes_on(
    dsabench: Command, tmp_path: Path, embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task: three routers of one call and two of 30 turns. Nothing stored is asked for again."""
    monkeypatch.setenv("DSABENCH_STORE_URL", str(tmp_path / "store"))
    monkeypatch.setenv("DSABENCH_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    with model_server(says("no route")) as server:
        spec = json.dumps({"name": "stub", "model": "hosted_vllm/stub", "api_base": server.url})
        study = ["routing-study", "--release", str(embedded), "--backend", spec, "--tasks", "1", "--json"]
        short = dsabench(*study, "--max-calls", "10")
        assert (short.code, short.json["status"]) == (1, "incomplete")
        assert "--max-calls is 10 and 10 calls were sent" in short.json["reason"]
        assert len(server.requests) == 10
        refused = dsabench(*study, "--max-cost", "0.5")
        assert (refused.code, len(server.requests)) == (1, 10)
        assert "the price of hosted_vllm/stub is unknown" in refused.json["reason"]
        whole = dsabench(*study)
        assert (whole.code, whole.json["status"]) == (0, "completed")
        bodies = [json.dumps(body, sort_keys=True) for body in server.requests]
        assert len(bodies) == len(set(bodies)) == 3 + 30 + 30
