// SPDX-License-Identifier: Apache-2.0
// What can be saved: the view as it is drawn, and what is selected in the formats of
// other tools.
import { address, isSaved, selection } from "./api";
import { clear, download, h } from "./dom";
import { figure, state } from "./state";
import type { Export } from "./view";

const formats: Array<[string, string, string]> = [
	["html", "this page as one file", "the whole run, for a colleague without Tidemark"],
	["json", "JSON", "stacks with all figures"], ["csv", "CSV", "stacks with all figures, for a spreadsheet"],
	["collapsed", "collapsed stacks", "for flamegraph.pl, inferno and speedscope"], ["flamegraph", "flame graph (SVG)", "interactive, in one file"],
	["speedscope", "speedscope", "speedscope.app"], ["firefox", "Firefox Profiler", "profiler.firefox.com"], ["pprof", "pprof", "go tool pprof, Grafana Pyroscope"],
	["callgrind", "callgrind", "KCachegrind"], ["massif", "massif", "ms_print, massif-visualizer"], ["dhat", "DHAT", "dh_view.html"],
	["heaptrack", "heaptrack", "heaptrack_print, heaptrack_gui"], ["chrome", "Chrome trace", "chrome://tracing, Perfetto"],
	["replay", "replay", "allocations and frees, to run them again"], ["sqlite", "SQLite", "every event as tables"], ["dot", "graph (DOT)", "Graphviz"],
];

export class ExportMenu {
	readonly button = h("button", { class: "small", "aria-haspopup": "dialog", onclick: () => this.open() }, "export");
	readonly dialog = h("dialog", { class: "exports", "aria-label": "Export" });
	private known: Set<string> | null = null;

	constructor(private here: () => Export[]) {
		this.dialog.addEventListener("click", (e) => e.target === this.dialog && this.dialog.close());
	}

	private async open(): Promise<void> {
		this.draw();
		this.dialog.showModal();
		if (this.known || isSaved) return;
		const list = await fetch("/api/v1/formats").then((r) => r.json()).catch(() => null);
		if (!list) return;
		this.known = new Set(list.formats.map((f: { name: string }) => f.name));
		for (const f of list.formats) if (!formats.some(([name]) => name === f.name)) formats.push([f.name, f.name, f.help]);
		this.draw();
	}

	private draw(): void {
		const mine = this.here();
		const params = { ...selection(), order: figure() };
		const files = formats.filter(([name]) => !this.known || this.known.has(name)).map(([name, title, help]) =>
			h("a", { href: address(`/traces/${encodeURIComponent(state.trace)}/export/${name}`, name === "html" ? {} : params), download: "", title: help, onclick: () => this.dialog.close() }, title, h("small", { class: "muted" }, help)));
		clear(this.dialog, h("h2", {}, "This view"),
			h("div", { class: "export-list" }, ...mine.map((one) => h("button", { onclick: async () => {
				const blob = await one.make();
				if (blob) download(one.name, blob);
				this.dialog.close();
			} }, one.title, h("small", { class: "muted" }, one.name))), !mine.length && h("span", { class: "muted" }, "It is text: copy it, or send the address of this page.")),
			!isSaved && h("h2", {}, "What is selected, for other tools"), !isSaved && h("div", { class: "export-list" }, ...files),
			h("form", { method: "dialog" }, h("button", {}, "close")));
	}
}
