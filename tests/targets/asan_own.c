/* SPDX-License-Identifier: Apache-2.0 */
/* A program's own options for AddressSanitizer, which go before what the agent says. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "color=never";
}
