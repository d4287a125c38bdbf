// SPDX-License-Identifier: Apache-2.0
// The first screen: what holds the memory, in words. Each sentence is computed,
// has its number, and leads to its view; with nothing to say it is left out.
import { ask, type FigureRow, isCancelled, selection, type Summary, type Table, type Timeline } from "../api";
import { type Child, clear, h } from "../dom";
import { bytes, count, duration, exact, percent, sure, visible } from "../format";
import { go, type Mode, state, type State } from "../state";
import { explain } from "../tip";
import { type Export, name, sayError, type View } from "../view";

export class Overview implements View {
	name = "overview";
	title = "Overview";
	help = "What holds the memory, and who asked for it.";

	private tables: Record<string, Table> = {};

	constructor(private summary: () => Summary | null) {}

	async draw(element: HTMLElement): Promise<void> {
		const summary = this.summary();
		if (!summary) return;
		const page = h("div", { class: "overview" });
		const words = h("div", { class: "words" });
		const tops = h("div", { class: "tops" });
		page.append(headline(summary), words, tops);
		/* Nothing jumps when the same comes anew. */
		if (!element.querySelector(".overview")) clear(element, page);
		try {
			const [peak, live, made, temporary] = await Promise.all([
				top("peak", "peak_bytes"), top("live", "unfreed_bytes"), top("allocated", "allocations"), top("allocated", "temporary_allocations")]);
			const timeline = await ask<Timeline>("overview-time", "timeline", { points: 120 });
			if (state.view !== this.name) return;
			this.tables = { peak, unfreed: live, allocations: made, temporary };
			put(words, sentences(summary, peak, live, temporary, timeline));
			tops.append(
				card("Peak", "live when the heap was largest", peak, "peak_bytes", bytes, { mode: "peak", cost: "bytes" }),
				card(summary.source === "attach" ? "Live at detach" : "Unfreed", "live at the end; unfreed is not a leak", live, "unfreed_bytes", bytes, { mode: "live", cost: "bytes" }),
				card("Allocations", "how often memory was asked for", made, "allocations", count, { mode: "allocated", cost: "blocks" }),
				card("Temporary", "freed by the very next step of their thread", temporary, "temporary_allocations", count, { mode: "allocated", cost: "temporary" }));
			clear(element, page);
		} catch (error) {
			if (isCancelled(error)) return;
			sayError(tops, error);
			clear(element, page);
		}
	}

	exports(): Export[] {
		return [{ name: "overview.json", title: "figures and top sites (JSON)", make: () => new Blob([JSON.stringify({ summary: this.summary(), ...this.tables }, null, "\t")], { type: "application/json" }) }];
	}
}

function top(mode: Mode, order: string): Promise<Table> {
	const params: Record<string, string | number> = { ...selection(), mode, order, limit: 8, stacks: 0 };
	return ask<Table>("overview-" + order, "sites", params);
}

function put(words: HTMLElement, list: Node[]): void {
	list.forEach((one) => words.append(h("p", {}, one)));
}

function figureBox(title: string, big: string, small: string, help: string): HTMLElement {
	return explain(h("div", { class: "figure" }, h("div", { class: "figure-title" }, title), h("div", { class: "figure-big" }, big),
		h("div", { class: "muted" }, small)), () => [h("b", {}, title), h("div", {}, help)]);
}

function headline(s: Summary): HTMLElement {
	const knows = (word: string) => !s.unknown?.includes(word);
	const temporary = !knows("temporary") ? "–" : s.allocations ? percent(s.temporary_allocations, s.allocations) : "0 %";
	return h("div", { class: "figures" },
		figureBox("Peak heap", bytes(s.peak_bytes) + sure(s.peak_bytes_error, s.peak_bytes), knows("times") ? `after ${duration(s.peak_time_ns)}` : "at some time", exact(s.peak_bytes) + " bytes: the largest sum of live sizes"),
		figureBox(s.source === "attach" ? "Live at detach" : "Live at end", bytes(s.unfreed_bytes) + sure(s.unfreed_bytes_error, s.unfreed_bytes), `${count(s.unfreed_allocations)} blocks`, exact(s.unfreed_bytes) + " bytes were not freed; that alone is no leak"),
		!knows("allocations") || !knows("counts") ? figureBox("Allocations", "–", "not in this file", "the file does not say how often memory was asked for") : figureBox("Allocations", count(s.allocations), `${bytes(s.allocated_bytes)}${sure(s.allocated_bytes_error, s.allocated_bytes)} in all`, exact(s.allocations) + " calls that asked for memory, " + (s.allocations ? bytes(s.allocated_bytes / s.allocations) : "0 B") + " on average"),
		figureBox("Temporary", temporary, knows("temporary") ? `${count(s.temporary_allocations)} allocations` : "not in this file", "freed by the very next heap event of their thread"),
		figureBox("Peak RSS", s.peak_rss_bytes ? bytes(s.peak_rss_bytes) : "–", s.rss && s.rss.explained_percent !== null ? `${s.rss.explained_percent} % explained` : "resident memory", "the largest resident set, sampled from outside; what is not explained is the allocator's reserve, code, stacks, and memory that other ways asked for"),
		figureBox("Duration", knows("times") ? duration(s.duration_ns) : "–", knows("threads") ? `${s.threads} ${s.threads === 1 ? "thread" : "threads"}` : "not in this file", visible(s.command ?? "")),
		figureBox("Lost events", count(s.lost_events), s.lost_events ? "the figures are too low" : `of ${count(s.events)}`, s.lost_events ? "so many could not be recorded; docs/limits.md says when that happens" : "every allocation and free is in these figures"));
}

function link(text: string, to: Partial<State>): Node {
	return h("button", { class: "link", onclick: () => go(to) }, text);
}

/** Least squares over the last half: bytes per second. */
function slope(t: Timeline): { perSecond: number; fit: number } {
	const from = Math.floor(t.end_ns.length / 2);
	const xs = t.end_ns.slice(from).map((v) => v / 1e9), ys = t.min_live_bytes.slice(from);
	const n = xs.length;
	if (n < 8) return { perSecond: 0, fit: 0 };
	const mx = xs.reduce((a, b) => a + b, 0) / n, my = ys.reduce((a, b) => a + b, 0) / n;
	let sxy = 0, sxx = 0, syy = 0;
	for (let i = 0; i < n; i++) {
		sxy += (xs[i]! - mx) * (ys[i]! - my);
		sxx += (xs[i]! - mx) ** 2;
		syy += (ys[i]! - my) ** 2;
	}
	return { perSecond: sxx ? sxy / sxx : 0, fit: sxx && syy ? (sxy * sxy) / (sxx * syy) : 0 };
}

function rate(perSecond: number): string {
	return perSecond * 60 > 1e6 ? `${bytes(perSecond)}/s` : perSecond * 3600 > 1e6 ? `${bytes(perSecond * 60)}/min` : `${bytes(perSecond * 3600)}/h`;
}

function sentences(s: Summary, peak: Table, live: Table, temporary: Table, t: Timeline): Node[] {
	const out: Node[] = [];
	const first = peak.rows[0] as FigureRow | undefined;
	if (first && s.peak_bytes)
		out.push(h("span", {}, `Peak ${bytes(s.peak_bytes)}${s.unknown?.includes("times") ? "" : ` after ${duration(s.peak_time_ns)}`}. `, `${bytes(first.peak_bytes!)} of it (${percent(first.peak_bytes!, s.peak_bytes)}) was allocated by `,
			link(name(first), { view: "flame", direction: "bottom_up", mode: "peak", cost: "bytes", search: first.function ?? "" }), "."));
	const growth = slope(t);
	if (growth.perSecond > 0 && growth.fit > 0.8 && growth.perSecond * (t.to_ns / 1e9) > s.peak_bytes * 0.05)
		out.push(h("span", {}, `Live memory grew by ${rate(growth.perSecond)} over the second half. `,
			link("What was allocated then and is still live?", { view: "flame", mode: "surviving", cost: "bytes", from: Math.round(t.to_ns / 2), to: t.to_ns, direction: "bottom_up" })));
	const kept = live.rows[0] as FigureRow | undefined;
	if (kept && s.unfreed_bytes > s.peak_bytes * 0.01)
		out.push(h("span", {}, `${bytes(s.unfreed_bytes)} were still live at the end, ${percent(kept.unfreed_bytes!, s.unfreed_bytes)} of it from `,
			link(name(kept), { view: "flame", direction: "bottom_up", mode: "live", cost: "bytes", search: kept.function ?? "" }), ". Unfreed is not a leak: programs often leave their memory to the system."));
	const brief = temporary.rows[0] as FigureRow | undefined;
	if (brief && s.allocations && s.temporary_allocations > s.allocations * 0.05)
		out.push(h("span", {}, `${percent(s.temporary_allocations, s.allocations)} of all allocations were temporary, ${percent(brief.temporary_allocations!, s.temporary_allocations)} of them in `,
			link(name(brief), { view: "flame", direction: "bottom_up", mode: "allocated", cost: "temporary", search: brief.function ?? "" }), "."));
	const cause = s.rss?.cause, advice = s.rss?.advice;
	if (cause) out.push(h("span", { class: "warn" }, `${cause} ${advice ?? ""}`));
	if (!out.length) out.push(h("span", {}, s.events ? "Nothing stands out." : "No heap event was recorded."));
	return out;
}

function cardTip(row: FigureRow, key: string, whole: number): Child[] {
	const [sum, blocks] = key === "peak_bytes" ? [row.peak_bytes!, row.peak_allocations!] : key === "unfreed_bytes" ? [row.unfreed_bytes!, row.unfreed_allocations!] : [row.allocated_bytes!, row.allocations!];
	return [h("b", {}, name(row)), h("div", {}, `${exact(row[key]!)}${sure(row[key + "_error"], row[key]!)} · ${percent(row[key]!, whole)} of the whole`),
		h("div", {}, `${bytes(sum)} in ${count(blocks)} blocks` + (blocks ? `, ${bytes(sum / blocks)} on average` : "")),
		h("div", { class: "muted" }, `${count(row.allocations!)} allocations in all, ${count(row.temporary_allocations!)} temporary`)];
}

function card(title: string, help: string, table: Table, key: string, unit: (n: number) => string, to: Partial<State>): HTMLElement {
	const whole = table.totals[key] ?? 0;
	const rows = (table.rows as FigureRow[]).map((row) => {
		const bar = h("span", { class: "bar" });
		bar.style.width = (whole ? (row[key]! / whole) * 100 : 0) + "%";
		return explain(h("button", { class: "top-row",
			onclick: () => go({ ...to, view: "flame", direction: "bottom_up", fn: row.function ?? "", search: row.function ?? "", path: "" }) },
		bar, h("span", { class: "top-name" }, name(row)), h("span", { class: "top-value" }, `${unit(row[key]!)}`, h("span", { class: "muted share" }, percent(row[key]!, whole)))), () => cardTip(row, key, whole));
	});
	return h("section", { class: "card" }, h("h2", {}, h("button", { class: "plain", onclick: () => go({ ...to, view: "flame", search: "" }) }, title), h("small", { class: "muted" }, help)),
		...(rows.length ? rows : [h("div", { class: "empty" }, state.filter ? "Nothing matches the filter." : "None.")]));
}
