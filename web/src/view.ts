// SPDX-License-Identifier: Apache-2.0
// What a view is, and what views share.
import { ApiError, type Figures, type Frame, isCancelled, type Row } from "./api";
import { type Child, clear, h } from "./dom";
import { base, bytes, byteTime, count, exact, percent, sure, visible } from "./format";
import { costs, go, isBytes, modes, state } from "./state";

export interface View {
	name: string;
	title: string;
	help: string; // one sentence: what it shows
	/** Draws into the element, now and after each change of the state. */
	draw(element: HTMLElement): Promise<void> | void;
	/** What of it can be saved, as it is now. */
	exports?(): Export[];
	/** Lets go of timers and observers; the view will not be drawn again. */
	leave?(): void;
}

export interface Export { name: string; title: string; make: () => Blob | null | Promise<Blob | null> }

/** Shows work, an error or an empty result in place of a view. */
export function say(element: HTMLElement, ...what: Array<Node | string>): void {
	clear(element, h("div", { class: "empty" }, ...what));
}

export function sayError(element: HTMLElement, error: unknown): void {
	if (isCancelled(error)) return;
	const message = error instanceof ApiError ? error.message : String(error);
	say(element, message, dropButtons());
}

/** Ways out of an empty or refused view: each of what narrows it can be dropped. */
export function dropButtons(): Node {
	return h("div", {}, state.filter && h("button", { onclick: () => go({ filter: "" }) }, "drop the filter"),
		(state.from !== null || state.to !== null) && h("button", { onclick: () => go({ from: null, to: null }) }, "whole run"),
		state.fold && h("button", { onclick: () => go({ fold: "" }) }, "hide nothing"),
		state.pivot && h("button", { onclick: () => go({ pivot: "" }) }, "drop the pivot"));
}

/** A function's name as a term of a filter. */
export function functionTerm(name: string): string {
	return `function="${name.replaceAll('"', '\\"')}"`;
}

/** "Held" is counted from single events, which takes its time. */
export function workText(): string {
	return state.mode === "held" ? "Adding up the lives of all blocks…" : "Loading…";
}

export function emptyText(): string {
	if (state.filter) return "Nothing here matches the filter. Drop or change it.";
	if (state.from !== null || state.to !== null) return "Nothing in this range. Choose another, or the whole run.";
	return state.mode === "live" ? "Everything was freed." : "Nothing was recorded.";
}

export function value(of: number): string {
	return !isBytes() ? count(of) : state.mode === "held" ? byteTime(of) : bytes(of);
}

export function exactValue(of: number): string {
	return exact(of) + (!isBytes() ? "" : state.mode === "held" ? " byte-milliseconds" : " bytes");
}

/** "live at the peak, in bytes" */
export function costTitle(): string {
	return state.cost === "temporary" ? costs.temporary : `${modes[state.mode].title}, in ${costs[state.cost]}`;
}

export function name(row: { function?: string | null; module?: string | null; file?: string | null; line?: number | null;
	package?: string | null }): string {
	if (row.function) return visible(row.function + (row.line ? `  ${base(row.file ?? null)}:${row.line}` : ""));
	if (row.package) return visible(row.package);
	if (row.file) return visible(`${row.file}:${row.line ?? "?"}`);
	return row.module ? visible(row.function === null ? base(row.module) : row.module) : "(no name)";
}

export function frameName(frame: Frame): string {
	return visible(frame.function ?? `${base(frame.module)}+${frame.address}`);
}

export function place(frame: { file: string | null; line: number | null }): string {
	return frame.file ? visible(`${frame.file}${frame.line ? ":" + frame.line : ""}`) : "";
}

/** The last parts of it, for a line that has no room. */
export function shortPlace(frame: { file: string | null; line: number | null }): string {
	const parts = place(frame).split("/");
	return parts.length > 3 ? parts.slice(-2).join("/") : parts.join("/");
}

/** What a tip says about a figure: value, exact value, share, average. */
export function figureLines(of: number, whole: number, blocks?: number, sum?: number): Child[] {
	const lines: Child[] = [h("div", {}, h("b", {}, value(of)), ` · ${percent(of, whole)} `, h("span", { class: "muted" }, exactValue(of)))];
	if (blocks !== undefined && sum !== undefined && blocks > 0)
		lines.push(h("div", { class: "muted" }, `${count(blocks)} blocks, ${bytes(sum / blocks)} on average`));
	return lines;
}

export function pairOf(figures: Figures): { bytes: number; blocks: number } {
	const m = modes[state.mode];
	return { bytes: figures[m.bytes] ?? 0, blocks: figures[m.blocks] ?? 0 };
}

export function rowFunction(row: Row): string {
	return row.function ?? "";
}

/** A segment of buttons, one of which is on. */
export function choice(options: Array<[string, string]>, now: string, pick: (value: string) => void, label: string): HTMLElement {
	return h("span", { class: "choice", role: "group", "aria-label": label }, ...options.map(([key, title]) =>
		h("button", { class: key === now ? "on" : "", "aria-pressed": String(key === now), onclick: () => pick(key) }, title)));
}

/** Figures of a row, in one tip: total, share, count, average. */
export function rowTip(title: string, figures: Figures, whole: number, order: string): Child[] {
	const { bytes: sum, blocks } = pairOf(figures);
	const average = blocks && state.mode !== "held" ? `, ${bytes(sum / blocks)} on average` : "";
	return [h("b", {}, title), h("div", {}, `${value(figures[order] ?? 0)}${sure(figures[order + "_error"], figures[order] ?? 0)} · ${percent(figures[order] ?? 0, whole)} of the whole`),
		h("div", { class: "muted" }, `${exactValue(figures[order] ?? 0)}; ${count(blocks)} blocks${average}`),
		h("div", { class: "muted" }, `allocations ${count(figures.allocations ?? 0)}, temporary ${count(figures.temporary_allocations ?? 0)}`)];
}
