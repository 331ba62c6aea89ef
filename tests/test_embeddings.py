"""MiniLM vectors: right model, unit norm, independent of neighbours, nothing cut off, cached across processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tasks_lib.models import embeddings
from tasks_lib.models.embeddings import (
    CacheDamaged,
    ModelDamaged,
    check_weights,
    chunks,
    embed,
    forget,
    truncated_tokens,
)

TEXTS = [
    "Which ferries sail on Sundays?",
    "ferry timetable: departures by weekday",
    "bone density of museum fossils",
    "x",
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSABENCH_HOME", str(tmp_path / "home"))
    forget()
    return tmp_path / "home"


def test_vectors_are_unit_float32_in_order_and_near_by_meaning() -> None:
    vectors = embed(TEXTS)
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    assert embed([]).shape == (0, 384)


def test_agrees_with_the_model_run_by_its_own_encoder() -> None:
    own = embeddings._model().encode(TEXTS, normalize_embeddings=True)
    assert np.abs(embed(TEXTS, disk=False) - own).max() < 2e-6


def test_a_text_has_the_same_bits_alone_and_among_others() -> None:
    together = embed([f"{t} {i}" for i in range(5) for t in TEXTS], disk=False)
    forget()
    alone = np.vstack([embed([f"{t} {i}"], disk=False) for i in reversed(range(5)) for t in TEXTS])
    assert np.array_equal(together, np.vstack([alone[4 * i : 4 * i + 4] for i in reversed(range(5))]))


def test_chunks_lose_no_word_and_keep_the_limit() -> None:
    words = [f"harbour{i} {'é' * (i % 3)} v{i}" for i in range(700)]
    text = "\n".join(" ".join(words[i : i + 7]) for i in range(0, 700, 7)) + " " + "z" * 5000
    for limit in (110, 256):
        pieces = chunks(text, limit)
        assert " ".join(pieces).split() == text.split()
        lengths = [len(e.ids) for e in embeddings._tokenizer().encode_batch(pieces)]
        assert max(lengths) <= limit
        assert len(pieces) > 2
    assert chunks("  \n ") == []
    with pytest.raises(ValueError, match="limit is 300"):
        chunks(text, 300)


def test_tokens_that_would_not_be_read_are_counted() -> None:
    long = "departures of ferries by weekday " * 100
    assert truncated_tokens([*TEXTS, *chunks(long)]) == 0
    assert truncated_tokens(["x", long]) == 100 * 6 + 2 - 256  # fer-ries is two


def test_the_end_of_a_long_text_changes_its_vector() -> None:
    long = "departures of ferries by weekday and harbour. " * 60
    first, second = embed([long + "whale", long + "violin concerto in E minor"])
    assert not np.array_equal(first, second)
    assert np.isclose(np.linalg.norm(first), 1, atol=1e-5)


def test_a_second_process_needs_no_model(home: Path) -> None:
    vectors = embed(TEXTS)
    program = (
        "import sys, numpy as np\nfrom tasks_lib.models import embeddings as e\n"
        f"v = e.embed({TEXTS!r})\nassert not e.model_loaded() and 'torch' not in sys.modules\n"
        "sys.stdout.buffer.write(v.tobytes())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "DSABENCH_HOME": str(home)}, capture_output=True, check=True
    )
    assert np.array_equal(np.frombuffer(done.stdout, np.float32).reshape(4, 384), vectors)


def test_many_processes_may_write_the_cache_at_once(home: Path) -> None:
    program = (
        "import sys, numpy as np\nfrom tasks_lib.models import embeddings as e\n"
        "own = {f'{int(sys.argv[1]) * (i % 2)}:{i}': np.full(384, i, np.float32) for i in range(400)}\n"
        "for k, v in own.items(): e._write({k: v})\n"
        "found = e._read(list(own)); assert all(np.array_equal(found[k], v) for k, v in own.items())"
    )
    env = {**os.environ, "DSABENCH_HOME": str(home)}
    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(n)], env=env, stderr=subprocess.PIPE) for n in range(4)
    ]
    assert [(r.communicate()[1].decode()[-500:], r.returncode) for r in runs] == [("", 0)] * 4


def test_a_damaged_cache_names_its_file(home: Path) -> None:
    home.mkdir()
    (home / "embeddings.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(CacheDamaged, match=r"embeddings\.sqlite.*delete the file"):
        embed(["a"])


def test_a_cut_vector_is_computed_again(home: Path) -> None:
    vector = embed(["a harbour"])
    embeddings._write({embeddings.sha256_text("a harbour"): vector[0][:7]})
    forget()
    assert np.array_equal(embed(["a harbour"]), vector)


def test_altered_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ModelDamaged, match="expected 53aa51172d14"):
        check_weights(tmp_path / "model.safetensors")
    check_weights(embeddings.model_folder() / "model.safetensors")
