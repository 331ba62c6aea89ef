-- Independent recomputation of the eight headline values of every cell from the episode table alone: a second code path in
-- plain SQL (PROTOCOL 14). Sums of 0, 0.5 and 1 are exact in double precision, so agreement is to the last bit.
with gates as (
    select
        cell_id, task_id, weight, correct, required,
        case when s then 1 else 0 end as s,
        case when s and label_ok and edges_ok then 1 else 0 end as g,
        case when correct = required and bindings_ok then 1 else 0 end as t,
        case when h then 1 else 0 end as h
    from episodes
),
sums as (
    select
        cell_id,
        count(distinct task_id) as n,
        sum(weight * s) as ws,
        sum(weight * g) as wg,
        sum(weight * t) as wt,
        sum(weight * s * t) as wst,
        sum(weight * g * t) as wgt,
        sum(weight * s * t * h) as wsth,
        sum(weight * g * t * h) as wgth,
        sum(weight * correct) as wc,
        sum(weight * required) as wr
    from gates
    group by cell_id
)
select cell_id, metric, numerator, denominator, case when denominator = 0 then 0 else numerator / denominator end as value
from (
    select cell_id, 'RA-Set' as metric, ws as numerator, cast(n as double) as denominator from sums
    union all select cell_id, 'RA-Graph', wg, n from sums
    union all select cell_id, 'EA-Micro', wc, wr from sums
    union all select cell_id, 'TEA', wt, n from sums
    union all select cell_id, 'CEA-Set', wst, ws from sums
    union all select cell_id, 'CEA-Graph', wgt, wg from sums
    union all select cell_id, 'R+E-Set', wsth, n from sums
    union all select cell_id, 'R+E-Graph', wgth, n from sums
)
order by cell_id, metric
