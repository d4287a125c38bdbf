/* SPDX-License-Identifier: Apache-2.0 */
/* The text of source lines, for --embed-source. */
#pragma once

#include "collector/namer_send.h"

/* Sends the lines that the symbols name, as far as their files can be read. */
TM_MUST_CHECK int namer_send_sources(struct namer_sender *sender, int root_fd,
				     const struct trace_symbol *symbols, size_t count);
