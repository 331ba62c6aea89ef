"""Names of functions and system tables that the guard allows or refuses.

Belongs here: closed lists, and why a name is on them. Does not belong here: the check itself (`guard`).
PostgreSQL: sqlglot knows the common functions as node types; what it does not know must be on this allow-list, because
the server has several hundred more, among them ones that read files, sleep, take locks or run SQL given as text.
SQLite: a plain build has no such functions beyond those refused here, and its authorizer refuses them again.
"""

# ruff: noqa: SIM905  (plain words read better than 400 quoted ones)

from __future__ import annotations

SQLITE_REFUSED_FUNCTIONS = frozenset(
    """load_extension writefile readfile edit fts3_tokenizer sqlite_log lsmode lsdir fsdir zipfile
    sha3_query eval shell sqlar_compress sqlar_uncompress sqlite_dbpage sqlite_compileoption_get
    sqlite_compileoption_used""".split()
)

SQLITE_REFUSED_TABLES = frozenset(
    "sqlite_dbpage sqlite_stmt dbstat fsdir lsdir zipfile completion bytecode tables_used sqlite_memstat".split()
)

# What describes the schema. Refused among others: pg_stat_activity (text of other queries), pg_stats (values),
# pg_database, pg_settings, pg_authid, pg_largeobject.
POSTGRES_CATALOG = frozenset(
    """pg_class pg_attribute pg_attrdef pg_namespace pg_type pg_enum pg_constraint pg_index pg_indexes pg_tables
    pg_views pg_description pg_operator pg_proc pg_range""".split()
)

POSTGRES_FUNCTIONS = frozenset(
    # mathematics
    """abs acos acosd acosh asin asind asinh atan atan2 atan2d atand atanh cbrt ceil ceiling cos cosd cosh cot cotd
    degrees div erf erfc exp factorial floor gcd lcm ln log log10 min_scale mod numeric_inc pi power pow radians round
    scale sign sin sind sinh sqrt tan tand tanh trim_scale trunc width_bucket greatest least num_nulls num_nonnulls"""
    # text
    """ ascii bit_length btrim casefold char_length character_length chr concat concat_ws convert_from convert_to
    decode encode format initcap left length lower lpad ltrim md5 normalize octet_length overlay parse_ident position
    quote_ident quote_literal quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_matches
    regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr repeat replace reverse right rpad rtrim
    sha224 sha256 sha384 sha512 split_part starts_with string_to_array string_to_table strpos substr substring to_ascii
    to_bin to_hex to_oct translate unistr upper similar_to_escape textcat get_bit get_byte set_bit set_byte bit_count"""
    # dates and times
    """ age clock_timestamp current_date current_time current_timestamp date_add date_bin date_part date_subtract
    date_trunc extract isfinite justify_days justify_hours justify_interval localtime localtimestamp make_date
    make_interval make_time make_timestamp make_timestamptz now statement_timestamp timeofday timezone to_char to_date
    to_number to_timestamp transaction_timestamp date timestamp interval date_diff datediff"""
    # arrays and ranges
    """ array_agg array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position
    array_positions array_prepend array_remove array_replace array_reverse array_sample array_shuffle array_sort
    array_to_string array_upper cardinality generate_series generate_subscripts trim_array unnest isempty lower_inc
    lower_inf upper_inc upper_inf range_merge int4range int8range numrange tsrange tstzrange daterange multirange
    range_agg range_intersect_agg"""
    # JSON
    """ array_to_json json json_array json_array_elements json_array_elements_text json_array_length json_arrayagg
    json_build_array json_build_object json_each json_each_text json_exists json_extract_path json_extract_path_text
    json_object json_object_agg json_object_keys json_objectagg json_populate_record json_populate_recordset json_query
    json_scalar json_serialize json_strip_nulls json_table json_to_record json_to_recordset json_typeof json_value
    jsonb_agg json_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array
    jsonb_build_object jsonb_each jsonb_each_text jsonb_exists jsonb_exists_all jsonb_exists_any jsonb_extract_path
    jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg jsonb_object_keys jsonb_path_exists
    jsonb_path_exists_tz jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first
    jsonb_path_query_tz jsonb_populate_record jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax
    jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof row_to_json to_json to_jsonb json_agg_strict
    jsonb_agg_strict json_object_agg_strict json_object_agg_unique jsonb_object_agg_strict jsonb_object_agg_unique"""
    # aggregates and windows
    """ any_value avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist dense_rank every
    first_value grouping lag last_value lead max min mode nth_value ntile percent_rank percentile_cont percentile_disc
    rank regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number stddev
    stddev_pop stddev_samp string_agg sum var_pop var_samp variance xmlagg"""
    # the rest: conditions, type constructors, text search, hashing to numbers, random
    """ coalesce nullif cast row bool boolean int2 int4 int8 float4 float8 numeric text varchar bpchar uuid random
    random_normal gen_random_uuid uuidv4 uuidv7 hashtext pg_typeof isnull notnull to_tsquery to_tsvector plainto_tsquery
    phraseto_tsquery websearch_to_tsquery ts_rank ts_rank_cd ts_headline tsvector_to_array similarity levenshtein point
    box circle lseg path polygon line area center diameter height width radius host network masklen family abbrev
    broadcast netmask hostmask inet_same_family inet_merge version obj_description col_description
    format_type""".split()
)
