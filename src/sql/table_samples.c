/* SPDX-License-Identifier: Apache-2.0 */
/* samples: memory of the process as the system saw it. */
#include "sql/tables.h"
#include "sql/vtab.h"

enum { TIME_NS, RSS_BYTES, PSS_BYTES, ANON_BYTES, AGENT_BYTES, CGROUP_BYTES, CGROUP_LIMIT_BYTES };

static const struct vtab_column columns[] = {
	{"time_ns", "INTEGER", "since the start of the recording", PUSH_NOTHING, true},
	{"rss_bytes", "INTEGER", "resident set", PUSH_NOTHING, false},
	{"pss_bytes", "INTEGER", "its proportional share; NULL if not known", PUSH_NOTHING, false},
	{"anon_bytes", "INTEGER", "anonymous and resident; NULL if not known", PUSH_NOTHING, false},
	{"agent_bytes", "INTEGER", "of Tidemark's agent, about", PUSH_NOTHING, false},
	{"cgroup_bytes", "INTEGER", "of its control group; NULL if not known", PUSH_NOTHING, false},
	{"cgroup_limit_bytes", "INTEGER", "NULL if there is none", PUSH_NOTHING, false},
};

static int load(struct sql *sql, struct tm_error *err)
{
	return trace_reader_samples(sql->reader, &sql->samples, &sql->sample_count, err);
}

/* Before load() the number of rows is only an estimate. */
static uint64_t end(const struct sql *sql)
{
	return sql->sample_count;
}

static int value(struct sql *sql, uint64_t row, int column, sqlite3_context *ret)
{
	const struct trace_sample *sample = &sql->samples[row];
	const uint64_t values[] = {
		[TIME_NS] = sample->time_ns,
		[RSS_BYTES] = sample->rss_bytes,
		[PSS_BYTES] = sample->pss_bytes,
		[ANON_BYTES] = sample->anon_bytes,
		[AGENT_BYTES] = sample->agent_bytes,
		[CGROUP_BYTES] = sample->cgroup_bytes,
		[CGROUP_LIMIT_BYTES] = sample->cgroup_limit_bytes,
	};
	bool zero_is_unknown = column == PSS_BYTES || column >= ANON_BYTES;
	if (column == AGENT_BYTES || values[column] || !zero_is_unknown)
		vtab_put_u64(ret, values[column]);
	return 0;
}

static const struct vtab_rows rows = {.load = load, .end = end, .key = -1, .value = value};

const struct vtab table_samples = {
	.name = "samples",
	.help = "the resident set, as the system saw it",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.rows = &rows,
};
