"""Running SQL read-only and comparing results: guard, engines, workers, canonical results, comparators.

Belongs here: everything that lets one SQL statement run safely against SQLite or PostgreSQL and turns what it returns
into a value that can be stored and compared. Does not belong here: what a task is, who wrote the SQL, or what a
verdict means for a score. This file stays empty of imports: worker processes start from it and must start fast.
"""
