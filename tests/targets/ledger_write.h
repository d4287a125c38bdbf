/* SPDX-License-Identifier: Apache-2.0 */
/* The writing half of ledger.h, which includes it: the account as one line of JSON. */
#pragma once

/* Maps the file "$LEDGER<suffix>". Without LEDGER does nothing. */
static inline void ledger_open(const char *suffix)
{
	const char *name = getenv("LEDGER");
	char path[4096];
	if (!name || !*name || strlen(name) + strlen(suffix) >= sizeof path)
		return;
	strcpy(path, name);
	strcat(path, suffix);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, LEDGER_FILE_BYTES) != 0)
		_exit(97);
	void *at = mmap(NULL, LEDGER_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		_exit(97);
	ledger.out = (char *)at;
}

static inline void ledger_text(const char *text)
{
	char *to = ledger.out ? ledger.out : ledger.buffer;
	size_t room = ledger.out ? (size_t)LEDGER_FILE_BYTES : sizeof ledger.buffer;
	for (; *text && ledger.used < room; text++)
		to[ledger.used++] = *text;
}

static inline void ledger_number(const char *key, uint64_t value)
{
	char digits[24];
	unsigned at = sizeof digits;
	digits[--at] = 0;
	do
		digits[--at] = (char)('0' + value % 10);
	while (value /= 10);
	ledger_text(",\"");
	ledger_text(key);
	ledger_text("\":");
	ledger_text(digits + at);
}

static inline void ledger_counts(const struct ledger_site *site, unsigned flags)
{
	ledger_number("allocations", site->allocations);
	ledger_number("frees", site->frees);
	ledger_number("allocated_bytes", site->allocated_bytes);
	ledger_number("unfreed_allocations", site->allocations - site->frees);
	ledger_number("unfreed_bytes", site->allocated_bytes - site->freed_bytes);
	if (!(flags & LEDGER_FUZZY))
		ledger_number("temporary_allocations", site->temporary);
	ledger_number("failed_allocations", site->failed);
}

static inline void ledger_functions(struct ledger_site *sum, unsigned flags)
{
	for (struct ledger_site *const *at = __start_ledger_sites; at < __stop_ledger_sites; at++) {
		const struct ledger_site *s = *at;
		ledger_text(at == __start_ledger_sites ? "{\"function\":\"" : ",{\"function\":\"");
		ledger_text(s->name);
		ledger_text("\"");
		ledger_counts(s, flags);
		if (flags & LEDGER_PEAK)
			ledger_number("peak_bytes", s->peak_bytes);
		ledger_text("}");
		sum->allocations += s->allocations;
		sum->frees += s->frees;
		sum->allocated_bytes += s->allocated_bytes;
		sum->freed_bytes += s->freed_bytes;
		sum->temporary += s->temporary;
		sum->failed += s->failed;
	}
}

static inline void ledger_stacks(void)
{
	for (unsigned i = 0; i < ledger.stack_count; i++) {
		ledger_text(i ? ",{\"frames\":\"" : "{\"frames\":\"");
		ledger_text(ledger.stacks[i].key);
		ledger_text("\"");
		ledger_number("allocations", ledger.stacks[i].value);
		ledger_text("}");
	}
}

/* Writes the account. Flags are LEDGER_EXACT, LEDGER_PEAK, LEDGER_FUZZY. */
static inline void ledger_print(const char *target, unsigned flags)
{
	struct ledger_site sum = {target, 0, 0, 0, 0, 0, 0, 0};
	ledger_text("{\"target\":\"");
	ledger_text(target);
	ledger_text("\",\"functions\":[");
	ledger_functions(&sum, flags);
	ledger_text("],\"stacks\":[");
	ledger_stacks();
	ledger_text("]");
	ledger_number("exact", (flags & LEDGER_EXACT) != 0);
	ledger_counts(&sum, flags);
	if (flags & LEDGER_PEAK)
		ledger_number("peak_bytes", ledger.peak_bytes);
	for (unsigned i = 0; i < ledger.extra_count; i++)
		ledger_number(ledger.extras[i].key, ledger.extras[i].value);
	ledger_text("}\n");
	if (!ledger.out && write(1, ledger.buffer, ledger.used) < 0)
		_exit(98);
}
