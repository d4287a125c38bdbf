/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'tidemark sql' as a user types it. Every question of docs/sql.md is run, and its
 * answer there must be the tool's; what the answers must hold is computed here
 * from what the made-up server does (sql_shop.h).
 */
#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/commands.h"
#include "harness/tap.h"
#include "sql/sql.h"
#include "sql_shop.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUESTS = 40000, QUESTIONS = 20, FILE_MAX = 1 << 22 };

struct stage {
	struct shop shop;
	char folder[64];
	struct text out, err;
};

static void setup(struct stage *stage, uint32_t requests)
{
	*stage = (struct stage){.folder = "/tmp/tidemark-sql-XXXXXX"};
	REQUIRE(mkdtemp(stage->folder));
	shop_make(&stage->shop, requests);
}

static void teardown(struct stage *stage)
{
	char command[96];
	text_done(&stage->out);
	text_done(&stage->err);
	shop_done(&stage->shop);
	snprintf(command, sizeof command, "rm -rf '%s'", stage->folder);
	CHECK_EQ_I64(system(command), 0);
}

static int open_in(const struct stage *stage, const char *name)
{
	char path[96];
	snprintf(path, sizeof path, "%s/%s", stage->folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	REQUIRE(fd >= 0);
	return fd;
}

/* Runs the command with its streams in files. Returns the exit status. */
static int run(struct stage *stage, const char *input, const char *const *words)
{
	static const char *const names[] = {"in", "out", "err"};
	int kept[3], argc = 0;
	fflush(NULL);
	for (int i = 0; i < 3; i++) {
		int fd = open_in(stage, names[i]);
		if (i == 0) {
			REQUIRE(io_write(fd, input, strlen(input)) == 0);
			REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
		}
		kept[i] = dup(i);
		REQUIRE(kept[i] >= 0 && dup2(fd, i) == i);
		close(fd);
	}
	while (words[argc])
		argc++;
	int status = cmd_sql(argc, (char **)(uintptr_t)words);
	fflush(NULL);
	fflush(stdin); /* what was not read */
	for (int i = 0; i < 3; i++) {
		struct text *text = i == 1 ? &stage->out : &stage->err;
		char path[96];
		dup2(kept[i], i);
		close(kept[i]);
		snprintf(path, sizeof path, "%s/%s", stage->folder, names[i]);
		text_clear(text);
		REQUIRE(i == 0 || io_read_file(path, FILE_MAX, text) == 0);
	}
	clearerr(stdin);
	return status;
}
#define SQL(stage, input, ...) \
	run((stage), (input), (const char *const[]){"sql", __VA_ARGS__, NULL})

/* ---- the document ---- */

/* What an answer must hold, blanks aside. */
static const struct {
	int question;
	const char *part;
} facts[] = {
	/* sizes 100 to 107 in turn: 103.5 on average */
	{1, "parse_request 40000 4.14 MB 103"},
	{1, "log_line 40000 1.32 MB 33"},
	/* 4,000 times 64, 128 and 256 */
	{1, "buffer_grow 12000 1.79 MB 149"},
	/* before request 30,000: 300 sessions, the 200 cached since the 20,000th, 1000 << 7 */
	{2, "index_build 1.00 MB 1 44.5"},
	{2, "cache_put 819 kB 200 36.4"},
	{2, "session_new 300 kB 300 13.3"},
	{2, "metrics_add 128 kB 1 5.7"},
	{3, "400 kB 400 session_new < handle_request < worker_loop"},
	{3, "512 kB 1 metrics_add < main"}, /* 1000 << 9 */
	{4, "metrics_add 9 512 kB"},
	{4, "session_new 10 400 kB"},
	/* every 100th of the first 20,000 is even: worker-1's */
	{5, "worker-1 session_new 200 200 kB"},
	/* 104 + 8 is a multiple of 16, so 105 needs 128: 128 - 8 - 105 = 15, 5,000 times */
	{6, "105 128 5000 75.0 kB parse_request"},
	/* 2,000 requests: 2 each, 3 * 200 buffers, 20 sessions, 40 cached = 4,660; index, metrics
	 */
	{7, "0 4662"},
	{7, "1 4660"},
	{7, "2 4661"},
	{8, "log_line 40000 100"},
	{9, "metrics_add 9 1 512000"},
	{9, "buffer_grow 2 4000 256"},
	/* every 50th of the first half is even */
	{10, "worker-1 shop cache_put 400"},
	{10, "worker-2 shop cache_put 400"},
	/* half of the first half: 10,000 requests of 2, 2,000 of 3 buffers, 200, 400 */
	{11, "worker-1 26600"},
	{11, "shop 11 2.02 MB 512 kB"},
	/* 120 more in the cache, 160 sessions, 64,000 instead of 4,000 */
	{12, "cache_put 491520"},
	{12, "session_new 160000"},
	{12, "metrics_add 60000"},
	/* the cache was emptied just before, the metrics are doubled just after */
	{13, "index_build 1 1.00 MB"},
	{13, "session_new 200 200 kB"},
	{13, "metrics_add 1 16.0 kB"},
	{14, "64 44000 64 107"},
	{14, "256 4000 256 256"},
	/* 4 times the 40 cached in the last second before the cache is emptied */
	{15, "below 1 s 160 655 kB"},
	{15, "to the end 401 912 kB"},
	{15, "longer 650"}, /* 640 cached, the index, 9 metrics */
	{16, "0 100 100 kB"},
	{16, "15 100 100 kB"},
	{17, "0.388502 alloc_fail 1.10 TB worker-2"},   /* 777 * 500 us */
	{17, "0.440006 realloc_fail 1.10 TB worker-1"}, /* 880 * 500 us */
	{18, "5 93200"},                                /* all but 11 */
	{19, "0 alloc 4096 cache_put"},
	{19, "6000 free 33 log_line"},
	{20, "15 25.0 MB"},
};

/* Runs of blanks as one, so that columns need not be counted. */
static void squeeze(const char *text, struct text *ret)
{
	text_clear(ret);
	for (; *text; text++)
		if (*text != ' ' || (text[1] != ' ' && text[1] != '\n'))
			text_put_char(ret, *text);
}

static char *cut_block(char **at, const char *fence)
{
	char *begin = strstr(*at, fence);
	char *end = begin ? strstr(begin + strlen(fence), "```\n") : NULL;
	REQUIRE(begin && end);
	*end = '\0';
	*at = end + 4;
	return begin + strlen(fence);
}

static void run_question(struct stage *stage, int number, const char *query, const char *answer)
{
	struct text squeezed = {0};
	size_t known = 0;
	int status = SQL(stage, "", stage->shop.path, query);
	if (!CHECK_EQ_I64(status, 0) || !CHECK_STR(text_string(&stage->out), answer))
		tap_note("question %d: %s", number, text_string(&stage->err));
	squeeze(text_string(&stage->out), &squeezed);
	for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
		if (facts[i].question != number)
			continue;
		known++;
		if (!strstr(text_string(&squeezed), facts[i].part)) {
			CHECK_HAS(text_string(&squeezed), facts[i].part);
			tap_note("question %d", number);
		}
	}
	CHECK(known > 0);
	text_done(&squeezed);
}

static void every_question(void)
{
	struct stage stage;
	struct text document = {0};
	setup(&stage, REQUESTS);
	REQUIRE(io_read_file(SQL_DOCUMENT, FILE_MAX, &document) == 0);
	char *at = strstr(document.data, "\n## Twenty questions\n");
	REQUIRE(at);
	for (int number = 1; number <= QUESTIONS; number++) {
		char head[32];
		snprintf(head, sizeof head, "\n### %d. ", number);
		at = strstr(at, head);
		REQUIRE(at);
		const char *query = cut_block(&at, "```sql\n");
		const char *answer = cut_block(&at, "```\n");
		run_question(&stage, number, query, answer);
	}
	CHECK(!strstr(at, "\n### "));
	text_done(&document);
	teardown(&stage);
}

static void every_column_is_described(void)
{
	struct text document = {0};
	struct sql_help table, column;
	const char *type;
	REQUIRE(io_read_file(SQL_DOCUMENT, FILE_MAX, &document) == 0);
	for (size_t i = 0; sql_table_help(i, &table); i++) {
		char part[128];
		snprintf(part, sizeof part, "\n### %s\n", table.name);
		char *begin = strstr(document.data, part);
		REQUIRE(begin);
		for (size_t k = 0; sql_column_help(table.name, k, &column, &type); k++) {
			snprintf(part, sizeof part, "| `%s` | %s |\n", column.name, column.help);
			begin = strstr(begin, part);
			if (!CHECK(begin != NULL))
				tap_note("%s.%s", table.name, column.name);
			REQUIRE(begin);
		}
	}
	for (size_t i = 0; sql_function_help(i, &table); i++) {
		char part[64];
		snprintf(part, sizeof part, "`%.*s(", (int)strcspn(table.name, "("), table.name);
		CHECK_HAS(document.data, part);
	}
	text_done(&document);
}

/* ---- formats ---- */

static void formats(void)
{
	struct stage stage;
	setup(&stage, 100);
	const char *path = stage.shop.path;
	CHECK_EQ_I64(SQL(&stage, "", "--csv", path,
			 "SELECT 1 AS a, 'x,\"y\"' AS \"b c\", NULL AS d, 0.5, x'00ff'"),
		     0);
	CHECK_STR(text_string(&stage.out), "a,b c,d,0.5,x'00ff'\n1,\"x,\"\"y\"\"\",,0.5,00ff\n");
	CHECK_EQ_I64(SQL(&stage, "", "--json", path, "SELECT 1 AS a, NULL AS b; SELECT 'x' AS c"),
		     0);
	CHECK_STR(text_string(&stage.out), "[\n  {\n    \"a\": 1,\n    \"b\": null\n  }\n]\n"
					   "[\n  {\n    \"c\": \"x\"\n  }\n]\n");
	CHECK_EQ_I64(SQL(&stage, "", path, "SELECT 7 AS number, char(27, 10) || 'é' AS name"), 0);
	CHECK_STR(text_string(&stage.out), "number  name\n------  ---------\n"
					   "     7  \\x1b\\x0aé\n");
	CHECK_EQ_I64(SQL(&stage, "", "--json", path, "SELECT 1 WHERE 0"), 0);
	CHECK_STR(text_string(&stage.out), "[]\n");
	/* More rows than wait for the widths. */
	CHECK_EQ_I64(SQL(&stage, "", "--csv", path,
			 "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c "
			 "WHERE x < 100000) SELECT x FROM c"),
		     0);
	CHECK_EQ_U64(stage.out.length, 2 + 9 * 2 + 90 * 3 + 900 * 4 + 9000 * 5 + 90000 * 6 + 7);
	CHECK_STR(text_string(&stage.err), "");
	teardown(&stage);
}

static void standard_input(void)
{
	struct stage stage;
	setup(&stage, 100);
	const char *path = stage.shop.path;
	CHECK_EQ_I64(
		SQL(&stage, "SELECT 1 AS a;\nSELECT\n  2 AS b;\n.mode csv\nSELECT 3 AS c", path),
		0);
	CHECK_STR(text_string(&stage.out), "a\n-\n1\nb\n-\n2\nc\n3\n");
	CHECK_EQ_I64(
		SQL(&stage, ".tables\n.schema threads\n.help\n.quit\nSELECT nonsense;\n", path), 0);
	CHECK_HAS(text_string(&stage.out), "stack_timeline   what each stack did");
	CHECK_HAS(text_string(&stage.out),
		  "CREATE TABLE threads (\n  thread_id INTEGER, -- number");
	CHECK_HAS(text_string(&stage.out), "human_bytes(bytes)");
	CHECK_STR(text_string(&stage.err), "");
	CHECK_EQ_I64(SQL(&stage, ".nothing\n.schema nothing\n.mode nothing\n", path), 0);
	CHECK_HAS(text_string(&stage.err), "There is no command '.nothing'; '.help' lists them.");
	CHECK_HAS(text_string(&stage.err), "There is no table 'nothing'; '.tables' lists them.");
	CHECK_HAS(text_string(&stage.err), "'.mode' takes table, csv or json, not 'nothing'.");
	/* A script ends at the first mistake. */
	CHECK_EQ_I64(SQL(&stage, "SELECT 1 AS a;\nSELECT nonsense;\nSELECT 2 AS b;\n", path), 1);
	CHECK_STR(text_string(&stage.out), "a\n-\n1\n");
	CHECK_HAS(text_string(&stage.err), "tidemark sql: no such column: nonsense");
	teardown(&stage);
}

static void mistakes(void)
{
	struct stage stage;
	setup(&stage, 100);
	const char *path = stage.shop.path;
	CHECK_EQ_I64(SQL(&stage, "", "--nothing"), 2);
	CHECK_EQ_I64(run(&stage, "", (const char *const[]){"sql", NULL}), 2);
	CHECK_HAS(text_string(&stage.err), "which trace?");
	CHECK_EQ_I64(SQL(&stage, "", path, "SELECT", "1"), 2);
	CHECK_HAS(text_string(&stage.err), "put the whole query in quotes");
	CHECK_EQ_I64(SQL(&stage, "", "/nonexistent.tide", "SELECT 1"), 1);
	CHECK_HAS(text_string(&stage.err), "'/nonexistent.tide' cannot be opened");
	CHECK_EQ_I64(SQL(&stage, "", "--section", "7", path, "SELECT 1"), 1);
	CHECK_HAS(text_string(&stage.err), "no section 7");
	CHECK_EQ_I64(SQL(&stage, "", "--color", "blue", path, "SELECT 1"), 2);
	CHECK_EQ_I64(SQL(&stage, "", path, "DELETE FROM blocks"), 1);
	CHECK_HAS(text_string(&stage.err), "tidemark sql: ");
	CHECK_EQ_I64(SQL(&stage, "", "--help"), 0);
	CHECK_HAS(text_string(&stage.out), "Usage: tidemark sql");
	teardown(&stage);
}

static const struct tap_case cases[] = {
	{.name = "the answers of the document are right", .run = every_question, .seconds = 120},
	{.name = "the document knows every table, column and function",
	 .run = every_column_is_described},
	{.name = "CSV, JSON and tables can be read by other programs", .run = formats},
	{.name = "statements come from a file as well", .run = standard_input},
	{.name = "mistakes are told with what to do", .run = mistakes},
};
TAP_MAIN(cases)
