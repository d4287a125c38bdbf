// SPDX-License-Identifier: Apache-2.0
// The frame of the page: head, timeline, bar, tabs and the view; keyboard; live update.
import { ApiError, ask, forget, isSaved, list, status, type Summary, type TraceEntry } from "./api";
import { Bar } from "./bar";
import { clear, h, showTip } from "./dom";
import { base, bytes, clock, count } from "./format";
import { setDark } from "./palette";
import { go, onChange, state } from "./state";
import { TimelineStrip } from "./timeline";
import type { View } from "./view";
import { Blocks } from "./views/blocks";
import { Charts } from "./views/charts";
import { Diff } from "./views/diff";
import { Flame } from "./views/flame";
import { Functions } from "./views/functions";
import { Histogram } from "./views/histogram";
import { Modules } from "./views/modules";
import { Overview } from "./views/overview";
import { Source } from "./views/source";
import { Threads } from "./views/threads";
import { TreeView } from "./views/tree";

let summary: Summary | null = null;
let traces: TraceEntry[] = [];
let shown: View | null = null;

const views: View[] = [
	new Overview(() => summary),
	new Flame(),
	new TreeView(),
	new Functions(),
	new Charts(),
	new Histogram("sizes", "Sizes", "How many allocations of which size.", "sizes"),
	new Histogram("lifetimes", "Lifetimes", "How long the blocks lived that were freed in the range.", "lifetimes"),
	new Blocks(),
	new Threads(),
	new Modules(),
	new Source(),
	new Diff(() => traces),
];

const strip = new TimelineStrip();
const bar = new Bar();
const picker = h("select", { class: "picker", "aria-label": "Trace", onchange: () => go({ trace: picker.value, from: null, to: null, path: "", filter: "", fn: "" }) });
const quality = h("div", { class: "quality" });
const tabs = h("nav", { class: "tabs", role: "tablist", "aria-label": "Views" });
const help = h("p", { class: "view-help muted" });
const main = h("main", { id: "view" });
const frame = h("div", { class: "frame" });

function drawHead(): void {
	picker.replaceChildren(...traces.map((t) => h("option", { value: t.id, title: `${bytes(t.file_bytes)}, ${clock(t.changed_unix_ns / 1e6)}` }, t.name)));
	picker.value = state.trace;
	if (!summary) {
		clear(quality);
		return;
	}
	const s = summary;
	document.title = `${base(s.program)} – Tidemark`;
	const unnamed = s.unnamed_percent;
	const parts: Array<[string, string, boolean]> = [
		[s.mode, "every event was recorded", s.mode !== "exact"],
		[`${count(s.lost_events)} lost`, "events that could not be recorded", s.lost_events > 0],
		[`${unnamed < 0.05 ? "0" : unnamed.toFixed(1)} % unnamed`, "frames without a function's name; 'tidemark report --symbols' says what to do", unnamed > 5],
		[ending(s), "how the recording ended", s.complete && s.end !== "exit" && s.end !== "exec"],
	];
	if (s.rss && s.rss.explained_percent !== null && s.rss.explained_percent !== undefined)
		parts.push([`${s.rss.explained_percent} % of RSS explained`, String(s.rss.cause ?? "how much of the anonymous resident memory the recorded blocks explain"), Number(s.rss.explained_percent) < 50]);
	if (s.warning) parts.push(["damaged", s.warning, true]);
	clear(quality, ...parts.map(([text, title, bad]) => h("span", { class: "badge" + (bad ? " bad" : ""), title }, text)));
	if (!s.complete)
		quality.append(h("button", { class: "badge live" + (state.follow ? " on" : ""), title: "the file is still being written", onclick: () => go({ follow: !state.follow }, false) }, state.follow ? "● following" : "○ follow"));
}

function ending(s: Summary): string {
	if (!s.complete && s.end === "unknown") return "still recording, or cut off";
	if (s.end === "exit") return `exit ${s.exit_status ?? "?"}`;
	if (s.end === "signal") return `signal ${s.signal}`;
	return s.end.replace("_", " ");
}

function drawTabs(): void {
	tabs.replaceChildren(...views.map((view, i) => h("button", { role: "tab", "aria-selected": String(view.name === state.view), class: view.name === state.view ? "on" : "",
		title: `${view.help} (${i < 9 ? i + 1 : 0})`, onclick: () => go({ view: view.name }) }, view.title)));
}

async function drawView(): Promise<void> {
	const view = views.find((v) => v.name === state.view) ?? views[0]!;
	if (shown !== view) {
		shown?.leave?.();
		showTip(null);
		main.replaceChildren();
		main.className = "view-" + view.name;
	}
	shown = view;
	help.textContent = view.name === "overview" ? "" : view.help;
	if (summary) await view.draw(main);
}

/** Reads the trace's summary, with progress while the server reads the file. */
async function loadTrace(): Promise<void> {
	const id = state.trace;
	const watch = isSaved ? 0 : setInterval(async () => {
		const now = await status(id).catch(() => null);
		if (now?.state === "loading" && state.trace === id)
			clear(main, h("div", { class: "empty" }, h("div", {}, `Reading the trace: ${count(now.done_events)} of ${count(now.total_events)} events`),
				h("progress", { max: Math.max(1, now.total_events), value: now.done_events }),
				h("div", {}, h("button", { onclick: () => void status(id, true) }, "cancel"))));
	}, 300);
	try {
		summary = await ask<Summary>("summary", "summary");
	} catch (error) {
		summary = null;
		if (error instanceof ApiError)
			clear(main, h("div", { class: "empty" }, h("div", {}, error.message), h("button", { onclick: () => void loadTrace() }, "try again")));
		return;
	} finally {
		clearInterval(watch);
	}
	if (state.trace !== id) return;
	drawHead();
	void strip.load(summary);
	await drawView();
}

/** A file that grows: the page moves with it until something is selected. */
async function follow(): Promise<void> {
	if (document.hidden) return;
	const before = traces.length;
	traces = (await list().catch(() => ({ traces }))).traces;
	if (traces.length !== before) drawHead();
	if (!summary || summary.complete || !state.follow) return;
	forget();
	const version = summary.version;
	summary = await ask<Summary>("summary", "summary").catch(() => summary);
	if (summary && summary.version !== version) {
		drawHead();
		await strip.load(summary);
		await drawView();
	}
}

function key(event: KeyboardEvent): void {
	const target = event.target as HTMLElement;
	if (event.key === "Escape") {
		if (target.matches("input, select")) target.blur();
		else if (helpBox.open) helpBox.close();
		else if (state.path) go({ path: state.path.split(".").slice(0, -1).join(".") });
		else if (state.search) go({ search: "" });
		else if (state.from !== null || state.to !== null) go({ from: null, to: null });
		return;
	}
	if (target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
	const number = event.key === "0" ? 9 : Number(event.key) - 1;
	if (event.key === "?") helpBox.showModal();
	else if (event.key === "/") {
		const search = main.querySelector<HTMLInputElement>('input[type="search"]');
		if (search) search.focus();
		else bar.focusFilter();
	} else if (number >= 0 && number < views.length && event.key.length === 1 && /[0-9]/.test(event.key)) go({ view: views[number]!.name });
	else if (event.key === "z" && state.fn) go({ view: "flame", search: state.fn });
	else return;
	event.preventDefault();
}

const helpBox = h("dialog", { class: "help" }, h("h2", {}, "Keys"), h("dl", {},
	...[["1 … 9, 0", "views"], ["/", "search"], ["Enter, f", "zoom into the box (flame graph)"], ["p", "pivot: callers and callees of the box"], ["arrows", "move in flame graph, tables and timeline"],
		["z", "find the selected function in the flame graph"], ["Esc", "back: zoom, search, range"], ["?", "this"]].flatMap(([k, t]) => [h("dt", {}, h("kbd", {}, k!)), h("dd", {}, t!)])),
h("form", { method: "dialog" }, h("button", {}, "close")));

async function start(): Promise<void> {
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const adapt = () => { setDark(dark.matches); strip.draw(); void drawView(); };
	setDark(dark.matches);
	document.body.append(frame, helpBox);
	frame.append(h("header", {}, h("a", { class: "brand", href: isSaved ? "?" : "/" }, isSaved ? null : h("img", { src: "/icon.svg", alt: "", width: 20, height: 20 }), "tidemark"), picker, quality,
		h("button", { class: "small", title: "Keys (?)", onclick: () => helpBox.showModal() }, "?")), strip.element, bar.element, tabs, help, main);
	try {
		traces = (await list()).traces;
	} catch (error) {
		clear(main, h("div", { class: "empty" }, (error as Error).message));
		return;
	}
	if (!traces.length) {
		strip.element.hidden = bar.element.hidden = tabs.hidden = true;
		clear(main, h("div", { class: "empty" }, h("p", {}, "No traces here yet."), h("p", {}, "Record one: ", h("code", {}, "tidemark run PROGRAM"), ". It appears here by itself.")));
		setInterval(async () => { if ((await list()).traces.length) location.reload(); }, 2000);
		return;
	}
	if (!traces.some((t) => t.id === state.trace)) go({ trace: traces[0]!.id }, false);
	onChange((before) => {
		drawTabs();
		if (before.trace !== state.trace) void loadTrace();
		else {
			drawHead();
			void drawView();
		}
	});
	dark.addEventListener("change", adapt);
	addEventListener("keydown", key);
	drawTabs();
	await loadTrace();
	if (!isSaved) setInterval(() => void follow(), 1000);
}

void start();
