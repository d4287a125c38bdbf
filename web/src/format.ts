// SPDX-License-Identifier: Apache-2.0
// Figures as people read them: the same forms as the terminal's.

function three(value: number): string {
	return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value: number, units: string[]): string {
	let at = 0;
	let rest = Math.abs(value);
	while (rest >= 999.5 && at < units.length - 1) {
		rest /= 1000;
		at++;
	}
	const sign = value < 0 ? "−" : "";
	const space = units[at] ? " " : "";
	return sign + (at === 0 ? String(Math.round(rest)) : three(rest)) + space + units[at];
}

export function bytes(value: number): string {
	return scaled(value, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]);
}

export function count(value: number): string {
	return scaled(value, ["", "k", "M", "G", "T"]);
}

/** Memory times time, from byte-milliseconds: "274 kB·s". */
export function byteTime(value: number): string {
	return scaled(value / 1000, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]) + "·s";
}

export function exact(value: number): string {
	return Math.round(value).toLocaleString("en-US");
}

/** Of an estimate: " ± 3 %"; "" of what is exact. */
export function sure(error: number | undefined, of: number): string {
	return error && of ? ` ± ${percent(error, of)}` : "";
}

export function percent(part: number, whole: number): string {
	if (!whole) return "0 %";
	const share = (part / whole) * 100;
	if (share !== 0 && Math.abs(share) < 0.1) return share < 0 ? "−<0.1 %" : "<0.1 %";
	const size = Math.abs(share);
	return (share < 0 ? "−" : "") + (size >= 10 ? size.toFixed(0) : size.toFixed(1)) + " %";
}

export function duration(ns: number): string {
	const sign = ns < 0 ? "−" : "";
	const n = Math.abs(ns);
	if (n < 1e3) return sign + Math.round(n) + " ns";
	if (n < 1e6) return sign + three(n / 1e3) + " µs";
	if (n < 1e9) return sign + three(n / 1e6) + " ms";
	const s = n / 1e9;
	if (s < 100) return sign + three(s) + " s";
	const two = (v: number) => String(Math.floor(v)).padStart(2, "0");
	if (s < 3600) return `${sign}${Math.floor(s / 60)} min ${two(s % 60)} s`;
	if (s < 86400) return `${sign}${Math.floor(s / 3600)} h ${two((s % 3600) / 60)} min`;
	return `${sign}${Math.floor(s / 86400)} d ${two((s % 86400) / 3600)} h`;
}

/** A moment, exact enough to tell it from its neighbours on a timeline of this length. */
export function moment(ns: number, spanNs: number): string {
	const digits = spanNs > 100e9 ? 1 : spanNs > 1e9 ? 2 : spanNs > 1e6 ? 5 : 6;
	if (spanNs >= 600e9) return duration(ns);
	return (ns / 1e9).toFixed(digits) + " s";
}

export function clock(unixMs: number): string {
	return new Date(unixMs).toLocaleString();
}

/** "rocksdb::…::Insert": the ends of a long name say more than its middle. */
export function middle(text: string, chars: number): string {
	if (text.length <= chars) return text;
	if (chars < 4) return text.slice(0, Math.max(1, chars));
	const head = Math.ceil((chars - 1) * 0.45);
	return text.slice(0, head) + "…" + text.slice(text.length - (chars - 1 - head));
}

/** Names are hostile: what would turn text around or hide in it is written out. */
export function visible(text: string): string {
	return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
		(c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** "libfoo.so" of a path. */
export function base(path: string | null): string {
	return path ? path.slice(path.lastIndexOf("/") + 1) : "";
}
