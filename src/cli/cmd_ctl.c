/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark ctl PID|NAME VERB: speak to a recording while it runs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/out.h"
#include "cli/sampling.h"
#include "cli/sessions.h"
#include "cli/sessions_put.h"

enum { OPT_PROGRAM = 1, OPT_JSON, OPT_QUIET, OPT_HELP, USAGE = 2 };

static const struct args_option options[] = {
	{OPT_PROGRAM, 0, "program", NULL, "stop: end the program, too (SIGTERM)"},
	{OPT_JSON, 'j', "json", NULL, "status: print JSON"},
	{OPT_QUIET, 'q', "quiet", NULL, "say nothing unless something is wrong"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static const struct {
	const char *name;
	enum control_verb verb;
	bool has_text;
	const char *help;
} verbs[] = {
	{"status", CONTROL_STATUS, false, "what is recorded, where to, how much"},
	{"mark", CONTROL_MARK, true, "give this moment a name, to be used in reports"},
	{"pause", CONTROL_PAUSE, false, "record no allocations; frees are still recorded"},
	{"resume", CONTROL_RESUME, false, "record allocations again"},
	{"sample", CONTROL_SAMPLE, true, "record a block every BYTES on average; off: every block"},
	{"rotate", CONTROL_ROTATE, false, "complete the file and go on in a new one"},
	{"stop", CONTROL_STOP, false, "complete the file; the program goes on"},
};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

struct request {
	const char *word;
	struct control_request control;
	bool program, json, quiet, help, has_verb, has_text;
	size_t verb;
};

static void print_help(void)
{
	puts("Usage: tidemark ctl [OPTIONS] PID|NAME VERB [TEXT]\n"
	     "\n"
	     "Speaks to a recording that runs. PID is the program's or tidemark's, NAME the\n"
	     "program's. 'tidemark list' shows what is being recorded.\n"
	     "\n"
	     "Verbs:");
	for (size_t i = 0; i < VERB_COUNT; i++)
		printf("  %-6s %-19s %s\n", verbs[i].name,
		       verbs[i].verb == CONTROL_SAMPLE ? "[BYTES]|off"
		       : verbs[i].has_text             ? "TEXT"
						       : "",
		       verbs[i].help);
	puts("\nOptions:");
	args_print_options(options, OPTION_COUNT);
}

static bool complain(const char *text)
{
	fprintf(stderr, "tidemark ctl: %s\n", text);
	return false;
}

static bool take_verb(struct request *request, const char *word)
{
	for (size_t i = 0; i < VERB_COUNT; i++)
		if (!strcmp(verbs[i].name, word)) {
			request->control.verb = (uint32_t)verbs[i].verb;
			request->has_verb = true;
			request->verb = i;
			return true;
		}
	const char *near = NULL;
	for (size_t i = 0; i < VERB_COUNT && !near; i++)
		if (args_is_near(word, verbs[i].name))
			near = verbs[i].name;
	fprintf(stderr, "tidemark ctl: there is no verb '%s'%s%s%s Type 'tidemark help ctl'.\n",
		word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : ".");
	return false;
}

/* Several words are one name, as in: ctl 17 mark after the warm-up */
static bool take_text(struct request *request, const char *word)
{
	char *text = request->control.text;
	size_t used = strlen(text);
	if (!verbs[request->verb].has_text) {
		fprintf(stderr, "tidemark ctl: '%s' takes no more words: '%s'.\n",
			verbs[request->verb].name, word);
		return false;
	}
	if (used + strlen(word) + 2 > CONTROL_TEXT_MAX)
		return complain("the name of a mark has at most 1000 bytes.");
	snprintf(text + used, sizeof request->control.text - used, "%s%s", used ? " " : "", word);
	request->has_text = true;
	return true;
}

static bool take_word(struct request *request, const char *word)
{
	if (!request->word) {
		request->word = word;
		return true;
	}
	return request->has_verb ? take_text(request, word) : take_verb(request, word);
}

/* The text becomes the number of bytes. */
static bool read_interval(const struct args *args, struct request *request)
{
	char *text = request->control.text;
	unsigned log2 = 0;
	if (strcmp(text, "off") && !sampling_interval(args, *text ? text : NULL, &log2))
		return false;
	snprintf(text, sizeof request->control.text, "%llu", log2 ? 1ull << log2 : 0);
	return true;
}

static bool check(const struct args *args, struct request *request)
{
	if (request->help)
		return true;
	if (!request->word || !request->has_verb)
		return complain("name a process and what to do, as in 'tidemark ctl 1234 status'. "
				"Type 'tidemark help ctl'.");
	if (request->control.verb == CONTROL_MARK && !request->has_text)
		return complain("which name? As in 'tidemark ctl 1234 mark warm'.");
	if (request->control.verb == CONTROL_SAMPLE && !read_interval(args, request))
		return false;
	if (request->program && request->control.verb != CONTROL_STOP)
		return complain("'--program' goes with 'stop' only.");
	if (request->program)
		request->control.verb = CONTROL_STOP_PROGRAM;
	return true;
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END) {
		if (id == ARGS_ERROR)
			return false;
		request->program |= id == OPT_PROGRAM;
		request->json |= id == OPT_JSON;
		request->quiet |= id == OPT_QUIET;
		request->help |= id == OPT_HELP;
		if (id == ARGS_WORD && !take_word(request, value))
			return false;
	}
	return check(args, request);
}

static void list_fitting(const struct sessions *sessions, const char *word)
{
	for (size_t i = 0; i < sessions->row_count; i++) {
		const struct control_process *process = &sessions->rows[i].process;
		if (sessions_fits(&sessions->rows[i], word))
			fprintf(stderr, "  %d  %s (tidemark %d)\n", process->pid,
				sessions_program_name(process->program), process->tool_pid);
	}
}

/* Of all processes that were chosen. */
static int print_status(const struct sessions *sessions, const struct sessions_choice *choice,
			bool as_json)
{
	struct out out;
	out_init(&out, OUT_COLOR_AUTO);
	struct json json = {.out = &out.text, .pretty = true};
	if (as_json)
		json_begin_array(&json, NULL);
	for (size_t i = 0; i < sessions->row_count; i++) {
		const struct session_row *row = &sessions->rows[i];
		if (row->peer != choice->peer || (choice->pid && choice->pid != row->process.pid))
			continue;
		if (as_json)
			sessions_put_json(&json, &row->process);
		else
			sessions_put_status(&out, &row->process);
	}
	if (as_json) {
		json_end(&json);
		text_put_char(&out.text, '\n');
	}
	return out_finish(&out);
}

static int speak(const struct request *request)
{
	struct sessions sessions;
	struct sessions_choice choice;
	struct tm_error err = {0};
	int status = 1;
	int error = sessions_find(&sessions, &err);
	if (!error) {
		error = sessions_choose(&sessions, request->word, &choice, &err);
		if (error) {
			complain(err.text);
			if (error == -ENOTUNIQ)
				list_fitting(&sessions, request->word);
		} else if (request->control.verb == CONTROL_STATUS) {
			status = print_status(&sessions, &choice, request->json);
		} else {
			struct control_request order = request->control;
			order.pid = (int32_t)choice.pid;
			error = control_ask(&sessions.peers[choice.peer], &order, NULL, NULL, &err);
			status = error ? 1 : 0;
			if (error)
				complain(err.text);
			else if (!request->quiet)
				printf("tidemark: %s\n", err.text);
		}
		sessions_done(&sessions);
	} else {
		complain(err.text);
	}
	return status;
}

int cmd_ctl(int argc, char **argv)
{
	struct request request = {0};
	struct args args = ARGS_OF("ctl", argc, argv, options);
	if (!parse(&args, &request))
		return USAGE;
	if (request.help) {
		print_help();
		return 0;
	}
	return speak(&request);
}
