"""PRIVATE. Review of a release in two locked passes, adjudication and wording-only revision (PROTOCOL 5)."""
