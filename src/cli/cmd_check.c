/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark check FILE | -- PROGRAM: is a recording within its budgets? For build servers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "cli/agent_path.h"
#include "cli/args.h"
#include "cli/check.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/traces.h"
#include "collector/collector.h"

enum { KEPT = 0, BROKEN = 1, NOT_CHECKED = 2 };

#define DEFAULT_BUDGETS ".tidemark-budgets"

enum {
	OPT_MAX = 1, /* --max-peak ...: OPT_MAX + enum budget_figure */
	OPT_BUDGET = OPT_MAX + BUDGET_FIGURE_COUNT,
	OPT_BUDGETS,
	OPT_NO_BUDGETS_FILE,
	OPT_BASELINE,
	OPT_TOLERANCE,
	OPT_SUPPRESSIONS,
	OPT_NO_BUILTIN,
	OPT_IMAGE,
	OPT_OUTPUT,
	OPT_ALLOW_FAILURE,
	OPT_JSON,
	OPT_JUNIT,
	OPT_GITHUB,
	OPT_HELP,
};

static const struct args_option options[] = {
	{OPT_MAX + BUDGET_PEAK, 0, "max-peak", "SIZE", "the largest sum of live blocks: 64M"},
	{OPT_MAX + BUDGET_UNFREED, 0, "max-unfreed", "SIZE", "what is live at the end"},
	{OPT_MAX + BUDGET_ALLOCATIONS, 0, "max-allocations", "N", "number of allocations: 10k"},
	{OPT_MAX + BUDGET_TEMPORARY, 0, "max-temporary", "N", "allocations that are freed at once"},
	{OPT_MAX + BUDGET_ALLOCATED, 0, "max-allocated", "SIZE", "sum of all allocations"},
	{OPT_MAX + BUDGET_RSS, 0, "max-rss", "SIZE", "largest resident set, without the agent"},
	{OPT_BUDGET, 'b', "budget", "BUDGET", "of functions: 'parse_*:allocations<=1000'"},
	{OPT_BUDGETS, 0, "budgets", "FILE",
	 "a file of budgets, one per line; " DEFAULT_BUDGETS " if it is there"},
	{OPT_NO_BUDGETS_FILE, 0, "no-budgets-file", NULL, "do not look for " DEFAULT_BUDGETS},
	{OPT_BASELINE, 0, "baseline", "OLD", "no figure may exceed that of the trace OLD"},
	{OPT_TOLERANCE, 0, "tolerance", "PERCENT", "by more than this: 5% if not given"},
	{OPT_SUPPRESSIONS, 0, "suppressions", "FILE", "unfreed blocks that are accepted"},
	{OPT_NO_BUILTIN, 0, "no-builtin-suppressions", NULL, "count what the C library keeps, too"},
	{OPT_IMAGE, 'i', "image", "N", "which image of the process; the last if not given"},
	{OPT_OUTPUT, 'o', "output", "FILE", "of PROGRAM: keep the trace there"},
	{OPT_ALLOW_FAILURE, 0, "allow-failure", NULL,
	 "of PROGRAM: its exit status does not matter"},
	{OPT_JSON, 'j', "json", NULL, "print JSON"},
	{OPT_JUNIT, 0, "junit", "FILE", "write JUnit XML there"},
	{OPT_GITHUB, 0, "github", NULL,
	 "print GitHub annotations; usual where GITHUB_ACTIONS is set"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	const char *path, *budgets_file, *baseline, *junit, *output;
	char **program; /* NULL: a file is checked */
	struct suppressed_options suppressed;
	bool no_budgets_file, has_section, allow_failure, json, github, help;
	uint64_t section;
	double tolerance;
	struct budgets budgets;
};

static void print_help(void)
{
	puts("Usage: tidemark check [OPTIONS] FILE\n"
	     "       tidemark check [OPTIONS] -- PROGRAM [ARGUMENTS]\n"
	     "\n"
	     "Holds a recording, or a run of a program, against budgets, and says which stacks\n"
	     "broke which. Exit status: 0 all are kept, 1 one is broken, 2 it could not be\n"
	     "checked, or the program itself failed.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
}

static bool complain(const struct tm_error *err)
{
	traces_complain("check", err);
	return false;
}

static bool take_tolerance(struct request *request, const char *value)
{
	char *end;
	double percent = strtod(value, &end);
	if (*end == '%')
		end++;
	if (end == value || *end || !(percent >= 0 && percent <= 1e6)) {
		fprintf(stderr, "tidemark check: '--tolerance' takes per cent, as 5%%, not '%s'.\n",
			value);
		return false;
	}
	request->tolerance = percent / 100;
	return true;
}

static bool take_word(struct request *request, const char *word)
{
	if (request->path) {
		fprintf(stderr,
			"tidemark check: one trace at a time: '%s' comes after '%s'. To run a "
			"program, put '--' before it.\n",
			word, request->path);
		return false;
	}
	request->path = word;
	return true;
}

static bool take_limit(struct request *request, int id, const char *value)
{
	struct tm_error err = {0};
	char origin[40];
	enum budget_figure figure = (enum budget_figure)(id - OPT_MAX);
	snprintf(origin, sizeof origin, "--max-%s", budget_name(figure));
	return !budgets_add_limit(&request->budgets, figure, value, origin, &err) || complain(&err);
}

static bool take_value(struct args *args, struct request *request, int id, const char *value)
{
	struct tm_error err = {0};
	switch (id) {
	case OPT_BUDGET:
		return !budgets_add(&request->budgets, value, "--budget", &err) || complain(&err);
	case OPT_BUDGETS:
		request->budgets_file = value;
		return true;
	case OPT_BASELINE:
		request->baseline = value;
		return true;
	case OPT_TOLERANCE:
		return take_tolerance(request, value);
	case OPT_SUPPRESSIONS:
		return suppressed_take_file(&request->suppressed, "check", value);
	case OPT_IMAGE:
		request->has_section = true;
		return args_number(args, "--image", value, UINT32_MAX, &request->section);
	case OPT_OUTPUT:
		request->output = value;
		return true;
	case OPT_JUNIT:
		request->junit = value;
		return true;
	case ARGS_WORD:
		return take_word(request, value);
	default:
		return take_limit(request, id, value);
	}
}

static bool take(struct args *args, struct request *request, int id, const char *value)
{
	switch (id) {
	case OPT_NO_BUDGETS_FILE:
		request->no_budgets_file = true;
		break;
	case OPT_NO_BUILTIN:
		request->suppressed.no_builtin = true;
		break;
	case OPT_ALLOW_FAILURE:
		request->allow_failure = true;
		break;
	case OPT_JSON:
		request->json = true;
		break;
	case OPT_GITHUB:
		request->github = true;
		break;
	case OPT_HELP:
		request->help = true;
		break;
	default:
		return take_value(args, request, id, value);
	}
	return true;
}

/* The first "--" ends the options; what follows is a program. */
static int find_program(int argc, char **argv, struct request *request)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--")) {
			request->program = argv + i + 1;
			return i;
		}
	return argc;
}

static bool parse(int argc, char **argv, struct request *request)
{
	struct args args = ARGS_OF("check", find_program(argc, argv, request), argv, options);
	args.shared = &foreign_args;
	const char *value = NULL;
	int id;
	while ((id = args_next(&args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take(&args, request, id, value))
			return false;
	if (request->help)
		return true;
	bool program = request->program && *request->program;
	if (program == !!request->path)
		fputs(program ? "tidemark check: name a trace or, after '--', a program, not "
				"both.\n"
			      : "tidemark check: which trace? Name a file, or a program after "
				"'--', "
				"as in 'tidemark check --max-peak 64M -- ./tests'.\n",
		      stderr);
	return program != !!request->path;
}

/* ---- running a program ---- */

static int shell_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* Its trace: kept where --output says, else in a folder of its own, to be removed. */
struct run {
	char folder[64]; /* "" = none was made */
	char *path;
	int status;
};

static int record(const struct request *request, struct run *run, struct tm_error *err)
{
	char agent[PATH_MAX], output[96];
	struct collector_result result;
	if (!agent_path_find(agent, err))
		return -ENOENT;
	if (!request->output) {
		snprintf(run->folder, sizeof run->folder, "/tmp/tidemark-check-XXXXXX");
		if (!mkdtemp(run->folder))
			return tm_fail(err, -errno, "no folder can be made in /tmp: %s",
				       strerror(errno));
		snprintf(output, sizeof output, "%s/trace.tide", run->folder);
	}
	const struct collector_options how = {
		.argv = request->program,
		.agent_path = agent,
		.output = request->output ? request->output : output,
		.force = true,
	};
	int code = collector_run(&how, &result, err);
	if (code)
		return code;
	run->status = shell_status(result.wait_status);
	if (result.trace_count && result.traces[0].totals.events)
		run->path = tm_strdup(result.traces[0].path);
	collector_result_done(&result);
	return run->path ? 0
			 : tm_fail(err, -ENODATA,
				   "no allocation of '%s' was recorded: 'tidemark run' says why",
				   request->program[0]);
}

static void clean_up(struct run *run)
{
	if (run->folder[0] && run->path)
		unlink(run->path);
	if (run->folder[0])
		rmdir(run->folder);
	tm_free(run->path);
}

/* ---- checking ---- */

static int open_side(const struct request *request, const char *path, struct side *side,
		     struct suppressed *suppressed, struct tm_error *err)
{
	struct side_options how = {.path = path,
				   .has_section = request->has_section && path != request->baseline,
				   .section = request->section};
	int code = side_open(side, &how, err);
	if (!code)
		code = suppressed_init(suppressed, &request->suppressed, &side->input, err);
	return code ? code : suppressions_apply(suppressed->list, side->data, err);
}

static int add_budgets(const struct request *request, struct check *check, struct tm_error *err)
{
	const char *file = request->budgets_file;
	if (!file && !request->no_budgets_file && !access(DEFAULT_BUDGETS, F_OK))
		file = DEFAULT_BUDGETS;
	int code = file ? budgets_add_file(&check->budgets, file, err) : 0;
	if (!code && !check->budgets.count && !request->baseline)
		code = tm_fail(err, -EINVAL,
			       "there is no budget: give one, as --max-peak 64M, or a file with "
			       "--budgets, or a --baseline");
	return code;
}

static int write_junit(const struct check *check, const char *path, struct tm_error *err)
{
	struct text text = {0};
	check_junit(check, &text);
	int code = text_error(&text);
	int fd = code ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (!code && fd < 0)
		code = -errno;
	if (!code)
		code = io_write(fd, text_string(&text), text.length);
	if (fd >= 0 && close(fd) && !code)
		code = -errno;
	text_done(&text);
	return code ? tm_fail(err, code, "'%s' cannot be written: %s", path, strerror(-code)) : 0;
}

static int print(const struct request *request, const struct check *check, struct tm_error *err)
{
	const char *actions = getenv("GITHUB_ACTIONS");
	if (request->json)
		check_json(check);
	else
		check_text(check);
	if (request->github || (actions && *actions && !request->json))
		check_github(check, &check->out->text);
	return request->junit ? write_junit(check, request->junit, err) : 0;
}

static int load(const struct request *request, const char *path, struct check *check,
		struct tm_error *err)
{
	int code = open_side(request, path, &check->side, &check->suppressed, err);
	if (!code && request->baseline)
		code = open_side(request, request->baseline, &check->baseline,
				 &check->baseline_suppressed, err);
	return code ? code : check_judge(check, err);
}

static int run_check(struct request *request, struct check *check, struct tm_error *err)
{
	struct run run = {0};
	int code = add_budgets(request, check, err);
	if (!code && request->program) {
		code = record(request, &run, err);
		check->has_program = !request->allow_failure;
		check->program_status = run.status;
	}
	if (!code)
		code = load(request, run.path ? run.path : request->path, check, err);
	if (!code)
		code = print(request, check, err);
	side_close(&check->side);
	side_close(&check->baseline);
	clean_up(&run);
	return code;
}

static void done(struct check *check)
{
	suppressed_done(&check->suppressed);
	suppressed_done(&check->baseline_suppressed);
	budgets_done(&check->budgets);
	tm_free(check->verdicts);
}

int cmd_check(int argc, char **argv)
{
	struct request request = {.tolerance = 0.05};
	struct tm_error err = {0};
	struct out out;
	if (!parse(argc, argv, &request) || request.help) {
		budgets_done(&request.budgets);
		if (request.help)
			print_help();
		return request.help ? 0 : NOT_CHECKED;
	}
	out_init(&out, OUT_COLOR_AUTO);
	struct check check = {
		.subject = request.path ? request.path : request.program[0],
		.tolerance = request.tolerance,
		.budgets = request.budgets,
		.out = &out,
	};
	int code = run_check(&request, &check, &err);
	int status = check.broken ? BROKEN : KEPT;
	if (!status && (check.unknown || (check.has_program && check.program_status)))
		status = NOT_CHECKED;
	done(&check);
	if (code) {
		text_done(&out.text);
		complain(&err);
		return NOT_CHECKED;
	}
	return out_finish(&out) ? NOT_CHECKED : status;
}
