"""Closed vocabularies of the protocol (PROTOCOL sections 1, 3, 7-10, 13, 15; DESIGN house style 2).

Only closed sets live here: no logic, no defaults. A value is the word that stands in tables, prompts and reports.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


class Corpus(StrEnum):
    """Where databases and questions come from; a task never mixes corpora."""

    SPIDER = "spider"
    BIRD = "bird"
    LIVESQLBENCH = "livesqlbench"


class Engine(StrEnum):
    """What runs the SQL of a database."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Behavior(StrEnum):
    """Task behaviors; also the normalized topology labels a route must carry."""

    SINGLE = "single"
    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    EXPLORATORY = "exploratory"
    INTERACTIVE = "interactive"


class Difficulty(StrEnum):
    """Difficulty by the stated rule on the contract (PROTOCOL 3)."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class Router(StrEnum):
    """The six routing policies of the routing study; the factorial uses direct, react and hermes."""

    RANDOM = "random"
    DIRECT = "direct"
    RERANK = "rerank"
    CONSTRAINED = "constrained"
    REACT = "react"
    HERMES = "hermes"


class DataAgent(StrEnum):
    """What writes local SQL."""

    TEXT_TO_SQL = "text_to_sql"
    ADAPTER = "adapter"


class Planner(StrEnum):
    """What orders the selected databases."""

    ORACLE = "oracle"
    LLM = "llm"


class Interaction(StrEnum):
    """Clarification policy."""

    NEVER = "never"
    ONCE = "once"


class QueryMode(StrEnum):
    """Which text a data agent receives for a database (PROTOCOL 10)."""

    PRIVILEGED = "privileged"
    FUSED = "fused"
    ROUTER = "router"


class VerdictKind(StrEnum):
    """How one required contribution ended. Only `correct` counts; every other kind stays in the denominator."""

    CORRECT = "correct"
    MISMATCH = "mismatch"
    MISSING_SQL = "missing_sql"
    AMBIGUOUS_SQL = "ambiguous_sql"
    REFUSED_SQL = "refused_sql"
    PARSE_ERROR = "parse_error"
    EXECUTION_ERROR = "execution_error"
    TIMEOUT = "timeout"
    RESULT_TOO_LARGE = "result_too_large"
    BINDING_INVALID = "binding_invalid"
    NOT_SELECTED = "not_selected"
    GENERATION_TRUNCATED = "generation_truncated"
    GENERATION_EMPTY = "generation_empty"
    MODEL_REFUSED = "model_refused"
    CONTEXT_OVERFLOW = "context_overflow"
    WORKER_DIED = "worker_died"


class InfrastructureFault(StrEnum):
    """Not verdicts: they leave the item not done."""

    PROVIDER_UNAVAILABLE = "provider_unavailable"
    DB_MISSING = "db_missing"
    DB_DAMAGED = "db_damaged"
    SERVER_UNAVAILABLE = "server_unavailable"


class CallOutcome(StrEnum):
    """How one model call ended. The first five are results and are stored; the rest are transient and raise."""

    OK = "ok"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    MODEL_REFUSED = "model_refused"
    CONTEXT_OVERFLOW = "context_overflow"
    BAD_REQUEST = "bad_request"
    RATE_LIMITED = "rate_limited"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    TIMEOUT = "timeout"


class Audience(StrEnum):
    """Who reads a prompt; the leak scan has one list per audience (DESIGN, public and private)."""

    ROUTER = "router"
    EXECUTOR = "executor"
    JUDGE = "judge"
    DIAGNOSTIC = "diagnostic"


class FailureStage(StrEnum):
    """Primary failure stage of a failed episode, in the order they are tested (PROTOCOL 15)."""

    NONE = "none"
    ASKED_WITHOUT_REVISING = "asked_without_revising"
    BRANCH_ERROR = "branch_error"
    RETRIEVAL_MISS = "retrieval_miss"
    UNDER_SELECTION = "under_selection"
    OVER_SELECTION = "over_selection"
    GRAPH_ERROR = "graph_error"
    BINDING_ORDER_ERROR = "binding_order_error"
    DECOMPOSITION_ERROR = "decomposition_error"
    SOURCE_EXECUTION_ERROR = "source_execution_error"


class Split(StrEnum):
    """Tuning split of source units: tune on train, report on dev."""

    TRAIN = "train"
    DEV = "dev"


# Settings of a run whose words are also what a form offers.
AskScope = Literal["interactive", "all"]
"""The tasks on which an agent may ask: the interactive ones, as published, or every task (PROTOCOL 8)."""

PlannerLanguage = Literal["en", "zh"]
"""The language of the LLM planner's instructions; the request stays as it is worded (PROTOCOL 9)."""
