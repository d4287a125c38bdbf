/* SPDX-License-Identifier: Apache-2.0 */
/* tidemark anonymize IN [OUT]: a trace that can be sent to a stranger. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/newfile.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/rewritten.h"
#include "cli/traces.h"
#include "model/anonymize.h"

enum { OPT_KEEP = 1, OPT_KEY, OPT_WORDS, OPT_FORCE, OPT_HELP };
enum { KEPT_MAX = 256, KEY_FILE_MAX = 1 << 20 };

static const struct args_option options[] = {
	{OPT_KEEP, 'k', "keep", "WORD", "leave this word as it is; can be given again"},
	{OPT_KEY, 0, "key-file", "FILE",
	 "the same words for the same names in all traces that get this file; it is made if it "
	 "does not exist"},
	{OPT_WORDS, 'w', "words", "FILE",
	 "write which word stands for what, for yourself: tab-separated"},
	{OPT_FORCE, 'f', "force", NULL, "replace OUT if it exists"},
	{OPT_HELP, 'h', "help", NULL, "print this help"},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

struct request {
	const char *in, *out, *key_file, *words_file;
	const char *kept[KEPT_MAX];
	size_t kept_count;
	bool force, help;
};

static void print_help(void)
{
	puts("Usage: tidemark anonymize [OPTIONS] IN [OUT]\n"
	     "\n"
	     "Writes a copy of a trace in which names of functions, files, folders, libraries,\n"
	     "threads, the program and the host are random words, the same word wherever the\n"
	     "same name was. Arguments and source lines are left out. Stacks and figures stay\n"
	     "as they are. Without OUT the copy is 'anonymous.tide' beside the trace.\n"
	     "\n"
	     "Options:");
	args_print_options(options, OPTION_COUNT);
	foreign_print_options();
}

static bool take(struct args *args, struct request *request, int id, const char *value)
{
	switch (id) {
	case OPT_KEEP:
		if (request->kept_count == KEPT_MAX) {
			fprintf(stderr, "tidemark anonymize: no more than %d words can be kept.\n",
				KEPT_MAX);
			return false;
		}
		request->kept[request->kept_count++] = value;
		break;
	case OPT_KEY:
		request->key_file = value;
		break;
	case OPT_WORDS:
		request->words_file = value;
		break;
	case OPT_FORCE:
		request->force = true;
		break;
	case OPT_HELP:
		request->help = true;
		break;
	default:
		return args_in_out(args, value, &request->in, &request->out);
	}
	return true;
}

static bool parse(struct args *args, struct request *request)
{
	const char *value = NULL;
	int id;
	while ((id = args_next(args, &value)) != ARGS_END)
		if (id == ARGS_ERROR || !take(args, request, id, value))
			return false;
	if (!request->in && !request->help)
		fputs("tidemark anonymize: name a trace, as in 'tidemark anonymize app.tide "
		      "strange.tide'.\n",
		      stderr);
	return request->in || request->help;
}

/* ---- the key ---- */

static int make_key_file(const char *path, struct text *key, struct tm_error *err)
{
	uint8_t bytes[32];
	int code = io_random(bytes, sizeof bytes);
	for (size_t i = 0; i < sizeof bytes; i++)
		text_print(key, "%02x", bytes[i]);
	text_put_char(key, '\n');
	if (!code)
		code = text_error(key);
	int fd = code ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (!code && fd < 0)
		code = -errno;
	if (!code)
		code = io_write(fd, key->data, key->length);
	if (fd >= 0 && close(fd) && !code)
		code = -errno;
	return code ? tm_fail(err, code, "the key file '%s' cannot be made: %s", path,
			      strerror(-code))
		    : 0;
}

static int read_key(const char *path, struct words_key *ret_key, struct tm_error *err)
{
	struct text key = {0};
	int code = io_read_file(path, KEY_FILE_MAX, &key);
	if (code == -ENOENT)
		code = make_key_file(path, &key, err);
	else if (code)
		tm_fail(err, code, "the key file '%s' cannot be read: %s", path, strerror(-code));
	if (!code && key.length < 16)
		code = tm_fail(
			err, -EINVAL,
			"the key file '%s' has less than 16 bytes: use a longer one, or name "
			"a new file to have one made",
			path);
	if (!code) {
		*ret_key = (struct words_key){0};
		ret_key->low = words_mix(*ret_key, key.data, key.length);
		ret_key->high = words_mix((struct words_key){.low = 1}, key.data, key.length);
	}
	text_done(&key);
	return code;
}

static int make_words(const struct request *request, struct words **ret_words, struct tm_error *err)
{
	struct words_key key;
	int code = request->key_file ? read_key(request->key_file, &key, err)
				     : io_random(&key, sizeof key);
	if (code && !err->code)
		tm_fail(err, code, "no random bytes: %s", strerror(-code));
	if (!code)
		code = words_new(key, ret_words, err);
	for (size_t i = 0; i < request->kept_count && !code; i++)
		if (words_keep(*ret_words, request->kept[i]))
			code = tm_fail(err, -ENOMEM, "no memory for the words to keep");
	return code;
}

/* ---- what stands for what ---- */

static int put_word(void *ctx, const char *name, const char *word)
{
	struct text *out = ctx;
	text_put(out, word);
	text_put_char(out, '\t');
	text_put_visible(out, name, strlen(name));
	text_put_char(out, '\n');
	return text_error(out);
}

static int write_words(const struct request *request, const struct words *words,
		       struct tm_error *err)
{
	struct text list = {0};
	struct newfile file;
	int fd;
	int code = words_each(words, put_word, &list);
	if (code)
		tm_fail(err, code, "no memory for the list of words");
	if (!code)
		code = newfile_open(&file, request->words_file, &fd, err);
	if (!code) {
		code = io_write(fd, text_string(&list), list.length);
		close(fd);
		if (code)
			tm_fail(err, code, "'%s' cannot be written: %s", request->words_file,
				strerror(-code));
		else
			code = newfile_commit(&file, true, NULL, err);
		newfile_drop(&file);
	}
	text_done(&list);
	return code;
}

/* ---- the copy ---- */

static char *output_path(const struct request *request)
{
	if (request->out)
		return tm_strdup(request->out);
	const char *slash = strrchr(request->in, '/');
	struct text path = {0};
	char *taken = NULL;
	text_put_bytes(&path, request->in, slash ? (size_t)(slash + 1 - request->in) : 0);
	text_put(&path, "anonymous.tide");
	return text_take(&path, &taken) ? NULL : taken;
}

static int write_copy(const char *in, int fd, struct words *words, struct tm_error *err)
{
	struct progress progress;
	const struct anonymize_options how = {
		.words = words, .progress = progress_tell_fn, .ctx = &progress};
	progress_begin(&progress, "renaming", "B");
	int code = anonymize(in, fd, &how, err);
	progress_end(&progress);
	if (code == -ECANCELED)
		tm_fail(err, code, "stopped; nothing was written");
	return code;
}

static void say(const char *path, const struct words *words)
{
	struct out out;
	out_init(&out, OUT_COLOR_AUTO);
	out_name(&out, path, 0);
	text_print(&out.text, ": %s names replaced\n", units_grouped(words_count(words)).text);
	(void)!out_finish(&out);
}

static int run(const struct request *request, struct tm_error *err)
{
	struct words *words = NULL;
	struct rewritten sound = {0};
	struct newfile file = {.temporary = ""};
	char *path = output_path(request);
	int fd, code = path ? 0 : tm_fail(err, -ENOMEM, "no memory for the name of the copy");
	if (!code)
		code = make_words(request, &words, err);
	if (!code)
		code = rewritten_sound(&sound, request->in, path, err);
	if (!code)
		code = newfile_open(&file, path, &fd, err);
	if (!code) {
		code = write_copy(sound.path, fd, words, err);
		close(fd);
	}
	if (!code)
		code = newfile_commit(&file, request->force, NULL, err);
	newfile_drop(&file);
	rewritten_done(&sound);
	if (!code && request->words_file)
		code = write_words(request, words, err);
	if (!code)
		say(path, words);
	words_free(words);
	tm_free(path);
	return code;
}

int cmd_anonymize(int argc, char **argv)
{
	struct args args = ARGS_OF("anonymize", argc, argv, options);
	args.shared = &foreign_args;
	struct request request = {0};
	struct tm_error err = {0};
	if (!parse(&args, &request))
		return 2;
	if (request.help) {
		print_help();
		return 0;
	}
	int code = run(&request, &err);
	if (!code)
		return 0;
	traces_complain("anonymize", &err);
	return code == -EINVAL ? 2 : 1;
}
