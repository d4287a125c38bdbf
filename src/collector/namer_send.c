/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/namer_send.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void namer_sender_init(struct namer_sender *sender, int fd)
{
	*sender = (struct namer_sender){.fd = fd};
}

static int send_whole(int fd, const void *data, size_t bytes)
{
	for (;;) {
		if (send(fd, data, bytes, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

int namer_send_flush(struct namer_sender *sender)
{
	if (!sender->head.count)
		return 0;
	memcpy(sender->message, &sender->head, sizeof sender->head);
	sender->head.count = 0;
	return send_whole(sender->fd, sender->message, sender->used);
}

/* A record of a kind with room for its bytes, or NULL with the error. */
static char *make_room(struct namer_sender *sender, enum names_kind kind, size_t bytes,
		       int *ret_error)
{
	*ret_error = 0;
	if (sender->head.count &&
	    (sender->head.kind != kind || sender->used + bytes > NAMES_MESSAGE_MAX))
		*ret_error = namer_send_flush(sender);
	if (*ret_error)
		return NULL;
	if (!sender->head.count) {
		sender->head.kind = kind;
		sender->used = sizeof sender->head;
	}
	char *at = sender->message + sender->used;
	sender->head.count++;
	sender->used += bytes;
	return at;
}

/* Bytes of a text as it is sent: with its end; 0 if there is none. */
static uint32_t sent_bytes(const char *text)
{
	return text ? (uint32_t)strnlen(text, NAMES_TEXT_MAX - 1) + 1 : 0;
}

static void put_text(char **at, const char *text, uint32_t bytes)
{
	if (!bytes)
		return;
	memcpy(*at, text, bytes - 1);
	(*at)[bytes - 1] = '\0';
	*at += bytes;
}

int namer_send_symbol(struct namer_sender *sender, const struct trace_symbol *symbol)
{
	struct names_symbol out = {
		.address = symbol->address,
		.module_id = symbol->module_id,
		.line = symbol->line,
		.column = symbol->column,
		.function_bytes = sent_bytes(symbol->function),
		.file_bytes = sent_bytes(symbol->file),
		.inlined = symbol->inlined,
		.source = symbol->source,
	};
	int error;
	char *at = make_room(sender, NAMES_SYMBOLS,
			     sizeof out + out.function_bytes + out.file_bytes, &error);
	if (!at)
		return error;
	memcpy(at, &out, sizeof out);
	at += sizeof out;
	put_text(&at, symbol->function, out.function_bytes);
	put_text(&at, symbol->file, out.file_bytes);
	return 0;
}

int namer_send_line(struct namer_sender *sender, const struct trace_source_line *line)
{
	struct names_line out = {.line = line->line,
				 .file_bytes = sent_bytes(line->file),
				 .text_bytes = sent_bytes(line->text)};
	int error;
	char *at = make_room(sender, NAMES_SOURCES, sizeof out + out.file_bytes + out.text_bytes,
			     &error);
	if (!at)
		return error;
	memcpy(at, &out, sizeof out);
	at += sizeof out;
	put_text(&at, line->file, out.file_bytes);
	put_text(&at, line->text, out.text_bytes);
	return 0;
}

void namer_send_warning(struct namer_sender *sender, const char *sentence)
{
	struct {
		struct names_head head;
		char text[512];
	} message = {.head = {.kind = NAMES_WARNING, .count = 1}};
	size_t bytes = strnlen(sentence, sizeof message.text - 1);
	memcpy(message.text, sentence, bytes);
	/* Not worth an error: names come all the same. */
	(void)!send_whole(sender->fd, &message, sizeof message.head + bytes + 1);
}
