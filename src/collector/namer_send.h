/* SPDX-License-Identifier: Apache-2.0 */
/* Answers, packed into messages. 0 or -errno; the first error ends the worker. */
#pragma once

#include "base/error.h"
#include "collector/names_wire.h"
#include "trace/records.h"

#include <stddef.h>

struct namer_sender {
	int fd;
	struct names_head head; /* of the message being filled; kind 0: none */
	size_t used;
	char message[NAMES_MESSAGE_MAX];
};

void namer_sender_init(struct namer_sender *sender, int fd);
TM_MUST_CHECK int namer_send_symbol(struct namer_sender *sender, const struct trace_symbol *symbol);
TM_MUST_CHECK int namer_send_line(struct namer_sender *sender,
				  const struct trace_source_line *line);
void namer_send_warning(struct namer_sender *sender, const char *sentence);
/* What was put so far goes out. Waits for the collector. */
TM_MUST_CHECK int namer_send_flush(struct namer_sender *sender);
