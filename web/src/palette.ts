// SPDX-License-Identifier: Apache-2.0
// Colour carries meaning: the application in hues by package, the same in every
// run; libraries paler; standard library and runtime in greys; allocators lightest.
import type { Frame } from "./api";

const cache = new Map<string, string>();
let isDark = false;

export function setDark(dark: boolean): void {
	if (dark !== isDark) cache.clear();
	isDark = dark;
}

function hash(text: string): number {
	let h = 2166136261;
	for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	return h >>> 0;
}

export function frameColor(frame: Frame): string {
	const owner = frame.package || frame.module || "";
	const key = frame.kind + " " + owner + " " + (frame.function ?? "");
	let found = cache.get(key);
	if (!found) {
		found = make(frame, owner);
		cache.set(key, found);
	}
	return found;
}

function make(frame: Frame, owner: string): string {
	const hue = hash(owner) % 360;
	const shade = hash(frame.function ?? "") % 9, tint = 170 + (hash("tint " + (frame.function ?? "")) % 90);
	switch (frame.kind) {
		case "application":
			return isDark ? `hsl(${hue} 48% ${36 + shade}%)` : `hsl(${hue} 68% ${74 + shade}%)`;
		case "library":
			return isDark ? `hsl(${hue} 24% ${33 + shade / 2}%)` : `hsl(${hue} 40% ${83 + shade / 2}%)`;
		case "allocator":
			return isDark ? "#3b4147" : "#f0f1f3";
		case "unknown":
			return isDark ? "#4a4438" : "#efe8d8";
		default:
			/* Grey, with just enough of a hue to tell neighbours apart. */
			return isDark ? `hsl(${tint} 9% ${29 + shade}%)` : `hsl(${tint} 14% ${82 + shade}%)`;
	}
}

/** Colours of curves one above the other, told apart by more than hue. */
export function seriesColor(index: number): string {
	const light = ["#2f7fb8", "#e0843a", "#54a24b", "#b8578f", "#8a6bbf", "#c9a227", "#3aa6a0", "#a0522d", "#7f8c8d", "#d35d6e"];
	const dark = ["#5aa9dd", "#f0a35e", "#7cc674", "#d583b3", "#ae93e0", "#e3c351", "#62cbc5", "#cc8358", "#a9b4b5", "#ee8a98"];
	return (isDark ? dark : light)[index % 10]!;
}
