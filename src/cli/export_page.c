/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/export_page.h"

#include <errno.h>

#include "server/server.h"

static int put(void *ctx, const void *data, size_t bytes)
{
	struct outlet *outlet = ctx;
	text_put_bytes(&outlet->text, data, bytes);
	return outlet_flush(outlet);
}

static int write_page(const struct export_input *input, struct outlet *outlet, struct tm_error *err)
{
	if (input->is_part)
		return tm_fail(err, -EINVAL,
			       "the format html holds the whole run: leave out --from, --to, --at "
			       "and --filter, or make a part with 'tidemark trim' first");
	return server_save_page(input->path, input->name, put, outlet, err);
}

const struct export_format export_page = {
	.name = "html",
	.help = "the page over the whole run as one file, for any browser",
	.suffix = ".html",
	.type = "text/html",
	.write = write_page,
};
