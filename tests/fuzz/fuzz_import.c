/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other tools from unknown hands: built once per reader (IMPORT_FORMAT is its
 * name), which then gets every input, whatever it looks like.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "fuzz/fuzz.h"
#include "import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct import_result result;
	struct tm_error err = {0};
	const struct import_options options = {
		.name = "fuzz", .format = IMPORT_FORMAT, .sysroot = "/nowhere"};
	int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
	if (in >= 0 && out >= 0 && !io_write(in, data, size)) {
		int code = import_run(in, out, &options, &result, &err);
		out = -1; /* taken over */
		(void)code;
	}
	if (out >= 0)
		close(out);
	close(in);
	return 0;
}
