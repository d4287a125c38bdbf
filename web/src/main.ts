// SPDX-License-Identifier: Apache-2.0
// The frame of the page: head, timeline, bar, tabs and the view; drawer; keyboard; live update.
import { ApiError, ask, forget, isCancelled, isSaved, list, status, type Summary, type TraceEntry } from "./api";
import { Bar } from "./bar";
import { clear, h } from "./dom";
import { Drawer } from "./drawer";
import { ExportMenu } from "./exports";
import { base, bytes, clock, count, duration, percent, visible } from "./format";
import { type FileNews, Live } from "./live";
import { setDark } from "./palette";
import { go, onChange, state } from "./state";
import { TimelineStrip } from "./timeline";
import { explain, showTip } from "./tip";
import type { View } from "./view";
import { Blocks } from "./views/blocks";
import { Charts } from "./views/charts";
import { Diff } from "./views/diff";
import { Flame } from "./views/flame";
import { Functions } from "./views/functions";
import { Growth } from "./views/growth";
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
	new Growth(),
];

const strip = new TimelineStrip();
const bar = new Bar();
const drawer = new Drawer((name, line) => strip.setCurve(name, line));
const exportMenu = new ExportMenu(() => [...(shown?.exports?.() ?? []), ...strip.exports()]);
const live = new Live({ onTraces: () => void refreshList(), onFile: (news) => void onFile(news), onLost: () => setLost(true), onBack: () => void onBack() });
const lostBadge = h("span", { class: "badge bad", role: "status", hidden: true }, "the server does not answer; trying again");
const picker = h("select", { class: "picker", "aria-label": "Trace", onchange: () => go({ trace: picker.value, from: null, to: null, zoomFrom: null, zoomTo: null, path: "", pivot: "", filter: "", fn: "" }) });
const factBox = h("span", { class: "facts" });
const followButton = h("button", { class: "badge live", title: "the file is still being written: move with its end", onclick: () => go({ follow: !state.follow }, false) });
const quality = h("div", { class: "quality" }, factBox, lostBadge);
const tabs = h("nav", { class: "tabs", role: "tablist", "aria-label": "Views" });
const help = h("p", { class: "view-help muted" });
const main = h("main", { id: "view" });
const frame = h("div", { class: "frame" });

function drawHead(): void {
	drawPicker();
	drawFollow();
	if (!summary) {
		clear(factBox);
		return;
	}
	const s = summary;
	document.title = `${base(s.program)} – Tidemark`;
	clear(factBox, ...facts(s).map(([text, help, bad]) => explain(h("span", { class: "badge" + (bad ? " bad" : "") }, text), () => [help])));
}

/** The list that somebody may just have opened stays as it is, unless there are others in it. */
function drawPicker(): void {
	const names = (options: Iterable<{ value: string; text: string }>) => JSON.stringify([...options].map((o) => [o.value, o.text]));
	const options = traces.map((t) => h("option", { value: t.id }, visible(t.name)));
	if (names(options) !== names(picker.options)) picker.replaceChildren(...options);
	traces.forEach((t, i) => (picker.options[i]!.title = `${bytes(t.file_bytes)}, ${clock(t.changed_unix_ns / 1e6)}`));
	picker.value = state.trace;
}

/** The same button all the time: it keeps the focus while the page moves on. */
function drawFollow(): void {
	if (!summary || !isLive(summary)) {
		followButton.remove();
		return;
	}
	followButton.classList.toggle("on", state.follow);
	followButton.setAttribute("aria-pressed", String(state.follow));
	followButton.textContent = state.follow ? "● following" : "○ follow";
	if (!followButton.isConnected) quality.append(followButton);
}

/** Somebody still writes the file. */
function isLive(s: Summary): boolean {
	return !s.complete && s.end === "unknown" && !isSaved;
}

/** What one must know before one believes the figures: text, explanation, whether it is bad. */
function facts(s: Summary): Array<[string, string, boolean]> {
	const unnamed = s.unnamed_percent;
	const out: Array<[string, string, boolean]> = [
		[s.mode === "import" ? "imported" : s.mode + (s.peak_bytes_error ? `, peak ± ${percent(s.peak_bytes_error, s.peak_bytes)}` : ""), s.mode === "import" ? "the figures are those of another tool" : s.mode === "exact" ? "every allocation and free was recorded" : "a part of the blocks stands for all: every figure is an estimate, good to about the square root of the interval by the bytes (docs/sampling.md)", s.mode !== "exact" && s.mode !== "import" && s.mode !== "sampled"],
		[`${count(s.lost_events)} lost`, "events that could not be recorded", s.lost_events > 0],
		[`${unnamed < 0.05 ? "0" : unnamed.toFixed(1)} % unnamed`, "share of frames without a function's name; 'tidemark report --symbols' says which files lack names, and what to do", unnamed > 5],
	];
	if (s.folded_events)
		out.push([`single blocks since ${duration(s.exact_since_ns ?? 0)}`, `${count(s.folded_events)} older events are in all figures, but no longer one by one (--retain): ranges there snap to slices, and filters on size, thread or lifetime see nothing of them`, false]);
	if (s.culled_events)
		out.push([`single blocks from ${duration(s.cull_ns ?? 0)} on`, `${count(s.culled_events)} events of blocks that lived shorter are in all figures, but not one by one (--cull): ranges snap to slices, and filters on size, thread or lifetime see nothing of them`, false]);
	if (s.source === "attach")
		out.push([`attached ${s.start_time ? clock(Date.parse(s.start_time)) : ""}`, `The program ran before: what it had allocated by then is not known. ${count(s.freed_older)} frees were of such older blocks.`, false]);
	else if (s.source.startsWith("import:")) out.push([`from ${visible(s.source.slice(7))}`, [`Read from another tool's file: ${visible(s.origin ?? "")}.`, s.unknown?.length ? `Not in it: ${s.unknown.join(", ")}.` : "", ...(s.facts ?? []).map(visible)].filter(Boolean).join(" "), false]);
	if (s.rss && s.rss.explained_percent !== null && s.rss.explained_percent !== undefined)
		out.push([`${s.rss.explained_percent} % of RSS explained`, String(s.rss.cause ?? "how much of the anonymous resident memory the recorded blocks explain"), Number(s.rss.explained_percent) < 50]);
	if ((s.events_not_stored ?? 0) > (s.culled_events ?? 0) && !s.folded_events) out.push([`${count((s.events_not_stored ?? 0) - (s.culled_events ?? 0))} events not stored`, "The file was not to grow beyond a limit: figures by stack and time are complete, single blocks and filters by size or thread are not.", false]);
	const unended = s.warning?.startsWith("the file has no end");
	if (s.warning && !(unended && isLive(s))) out.push([unended ? "cut short" : "damaged", visible(s.warning), true]);
	if (s.end !== "unsaid") out.push([ending(s), `how the recording ended, after ${duration(s.duration_ns)}: ${endings[s.end]?.[1] ?? s.end}` + (s.note ? "; " + visible(s.note) : ""), !!endings[s.end]?.[2]]);
	return out;
}

/** How a recording can end: in a word, in a sentence, whether that is bad. */
const endings: Record<string, [string, string, boolean]> = {
	exit: ["exit", "the program ended by itself", false],
	signal: ["signal", "a signal ended the program", true],
	killed: ["killed", "the program was killed (SIGKILL)", true],
	oom: ["out of memory", "the kernel killed the program because memory was short: the last minutes of the timeline show who took it", true],
	exec: ["exec", "the program became another one", false],
	detached: ["detached", "tidemark left the program, which went on", false],
	stopped: ["limit reached", "a limit of time or size that was asked for; the program went on", false],
	rotated: ["goes on in the next file", "the recording was cut here and goes on in the next piece", false],
	agent_off: ["recorder switched off", "the part in the program switched itself off; what came after is not recorded", true],
	disk_full: ["disk full", "the disk was full: what came after is not recorded", true],
	disk_error: ["disk failed", "the disk took no more: what came after is not recorded", true],
	collector_lost: ["recorder lost", "the file has no end and nobody writes it: the recorder was killed, or this is a copy of a file that was being written", true],
	unknown: ["still recording", "the file has no end yet", false],
};

function ending(s: Summary): string {
	if (s.end === "exit") return `exit ${s.exit_status ?? "?"}`;
	if (s.end === "signal") return `signal ${s.signal}`;
	return endings[s.end]?.[0] ?? s.end.replace("_", " ");
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
	drawer.draw();
	if (!summary) return;
	const lacks = (needs[view.name] ?? []).find((word) => summary!.unknown?.includes(word));
	if (lacks) clear(main, h("div", { class: "empty" }, h("p", {}, `This file cannot fill the view ${view.title}: ${why[lacks]}.`), h("p", {}, "It was read from another tool's file; a recording by Tidemark has all of it.")));
	else await view.draw(main);
}

/** What a view cannot do without, in the words of the summary's "unknown". */
const needs: Record<string, string[]> = {
	charts: ["times"], growth: ["times"], lifetimes: ["lifetimes", "events"], sizes: ["sizes"], blocks: ["events"], threads: ["threads", "events"],
};
const why: Record<string, string> = {
	lifetimes: "it does not say which block a free ended", threads: "it does not say which thread did what", times: "it does not say when things happened",
	events: "it has sums per stack, not single events", sizes: "it does not say how large single blocks are",
};

/** Reads the trace's summary; how far the server is comes as news meanwhile. */
async function loadTrace(): Promise<void> {
	const id = state.trace;
	live.watch(id);
	loading++;
	try {
		summary = await ask<Summary>("summary", "summary");
	} catch (error) {
		if (isCancelled(error)) return;
		summary = null;
		drawHead();
		clear(main, h("div", { class: "empty" }, h("div", {}, error instanceof ApiError ? error.message : String(error)), h("button", { onclick: () => void loadTrace() }, "try again")));
		return;
	} finally {
		loading--;
	}
	if (state.trace !== id) return;
	drawHead();
	void strip.load(summary);
	await drawView();
	/* What changed before the server could tell us is in no news. */
	if (state.trace === id && !summary.complete && state.follow) void update();
}

const readingText = h("div");
const readingBar = h("progress");
const reading = h("div", { class: "empty" }, readingText, readingBar, h("div", {}, h("button", { onclick: () => void status(state.trace, true) }, "cancel")));

function showReading(news: FileNews): void {
	const known = news.total_events > 0;
	readingText.textContent = known ? `Reading the trace: ${count(news.done_events)} of ${count(news.total_events)} events` : "Opening the trace…";
	if (known) Object.assign(readingBar, { max: news.total_events, value: news.done_events });
	else readingBar.removeAttribute("value");
	if (!reading.isConnected) clear(main, reading);
}

let seen = ""; // the state of the file that the server told last
let busy = false, again = false;
let loading = 0; // how many wait for the first summary of a trace

function seenAs(id: string, file: { file_bytes: number; changed_unix_ns: number }): string {
	return `${id} ${file.file_bytes} ${file.changed_unix_ns}`;
}

/** The file has changed, or is being read. A file that grows moves the page until something is selected. */
async function onFile(news: FileNews): Promise<void> {
	if (news.id !== state.trace) return;
	if (news.state === "loading" && !summary) showReading(news);
	const now = seenAs(news.id, news);
	const first = seen === "" || !seen.startsWith(news.id);
	if (seen === now) return;
	seen = now;
	/* What could not be read may be readable now. */
	if (!summary && !loading) await loadTrace();
	else if (summary && (summary.complete ? !first : state.follow)) await update();
}

/** Asks for all anew, one round at a time. */
async function update(): Promise<void> {
	if (busy) {
		again = true;
		return;
	}
	busy = true;
	let tries = 0;
	do {
		again = false;
		forget();
		const version = summary?.version, asked = state.trace;
		const now = await ask<Summary>("summary", "summary").catch(() => null);
		if (now && now.version !== version) {
			if (now.complete && summary && !summary.complete) void followOn(now);
			summary = now;
			drawHead();
			await strip.load(summary);
			await drawView();
			drawer.refresh();
			tries = 0;
		}
		/* The server reads a file at most twice a second: what it said may be older than the news. */
		if (!(now && seen === seenAs(asked, now)) && tries++ < 5) {
			await new Promise((done) => setTimeout(done, 600));
			again = true;
		}
	} while (again && !document.hidden && (state.follow || summary?.complete));
	busy = false;
}

async function refreshList(): Promise<void> {
	const before = JSON.stringify(traces.map((t) => t.id));
	traces = (await list().catch(() => ({ traces }))).traces;
	if (JSON.stringify(traces.map((t) => t.id)) === before) return;
	drawHead();
}

/** A recording that was seen to go on in another file (rotation): the page goes with it, as soon as it is there. */
async function followOn(here: Summary): Promise<void> {
	const id = state.trace;
	if (here.end !== "rotated" || !here.series) return;
	for (let i = 0; i < 120; i++) {
		traces = (await list().catch(() => ({ traces }))).traces;
		drawHead();
		const next = await nextPiece(id, here);
		if (state.trace !== id || !state.follow || state.from !== null) return;
		if (next) {
			go({ trace: next }, false);
			return;
		}
		await new Promise((done) => setTimeout(done, 500));
	}
}

/** The newest piece of the same series: their names differ by numbers. */
async function nextPiece(id: string, here: Summary): Promise<string | null> {
	const alike = (name: string) => name.replace(/[.0-9]/g, "");
	const name = traces.find((t) => t.id === id)?.name ?? "";
	for (const trace of traces.filter((t) => t.id !== id && alike(t.name) === alike(name)).slice(0, 5)) {
		const other = await ask<Summary>("piece", "summary", {}, trace.id).catch(() => null);
		if (other && other.series === here.series && (other.piece ?? 1) > (here.piece ?? 1)) return trace.id;
	}
	return null;
}

function setLost(lost: boolean): void {
	lostBadge.hidden = !lost;
}

/** The server is there again, maybe another one with other facts. */
async function onBack(): Promise<void> {
	setLost(false);
	traces = (await list().catch(() => ({ traces }))).traces;
	forget();
	if (summary) {
		const before = summary;
		summary = await ask<Summary>("summary", "summary").catch(() => before);
		if (summary.complete && !before.complete) void followOn(summary);
		drawHead();
		await strip.load(summary);
		await drawView();
	} else await loadTrace();
}

function key(event: KeyboardEvent): void {
	const target = event.target as HTMLElement;
	if (event.key === "Escape") {
		if (target.matches("input, select")) target.blur();
		else if (helpBox.open) helpBox.close();
		else if (state.path) go({ path: state.path.split(".").slice(0, -1).join(".") });
		else if (state.pivot) go({ pivot: "" });
		else if (state.search) go({ search: "" });
		else if (state.zoomFrom !== null || state.zoomTo !== null) go({ zoomFrom: null, zoomTo: null });
		else if (state.from !== null || state.to !== null) go({ from: null, to: null });
		else if (state.fn) go({ fn: "" }, false);
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
	else if (event.key === "z" && (state.from !== null || state.zoomFrom !== null)) strip.zoom();
	else if (event.key === "z" && state.fn) go({ view: "flame", search: state.fn });
	else if (event.key === "p" && state.fn) go({ view: "flame", pivot: state.fn, path: "" });
	else if (event.key === "e") exportMenu.button.click();
	else return;
	event.preventDefault();
}

const helpBox = h("dialog", { class: "help" }, h("h2", {}, "Keys"), h("dl", {},
	...[["1 … 9, 0", "views"], ["/", "search"], ["Enter, f", "zoom into the box (flame graph)"], ["p", "pivot: callers above, callees below the selected function"], ["e", "export"], ["arrows", "move in flame graph, tables and timeline"],
		["z", "zoom the timeline to the selected range, or find the selected function in the flame graph"], ["Ctrl + wheel, Shift + wheel", "stretch and move the flame graph"], ["Esc", "back: zoom, pivot, search, range"], ["?", "this"]].flatMap(([k, t]) => [h("dt", {}, h("kbd", {}, k!)), h("dd", {}, t!)])),
h("form", { method: "dialog" }, h("button", {}, "close")));

async function start(): Promise<void> {
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const adapt = () => { setDark(dark.matches); strip.draw(); void drawView(); };
	setDark(dark.matches);
	document.body.append(frame, helpBox, exportMenu.dialog);
	frame.append(h("header", {}, h("a", { class: "brand", href: isSaved ? "?" : "/" }, isSaved ? null : h("img", { src: "/icon.svg", alt: "", width: 20, height: 20 }), "tidemark"), picker, quality, exportMenu.button,
		h("button", { class: "small", title: "Keys (?)", onclick: () => helpBox.showModal() }, "?")), strip.element, bar.element, tabs, help, h("div", { class: "stage" }, main, drawer.element));
	try {
		traces = (await list()).traces;
	} catch (error) {
		clear(main, h("div", { class: "empty" }, (error as Error).message));
		return;
	}
	if (!traces.length) {
		strip.element.hidden = bar.element.hidden = tabs.hidden = true;
		clear(main, h("div", { class: "empty" }, h("p", {}, "No traces here yet."), h("p", {}, "Record one: ", h("code", {}, "tidemark run PROGRAM"), ". It appears here by itself.")));
		const waiting = new Live({ onTraces: async () => { if ((await list()).traces.length) location.reload(); }, onFile: () => {}, onLost: () => {}, onBack: () => {} });
		waiting.watch("last");
		return;
	}
	if (!traces.some((t) => t.id === state.trace)) go({ trace: traces[0]!.id }, false);
	onChange((before) => {
		drawTabs();
		if (before.trace !== state.trace) {
			summary = null;
			forget();
			void loadTrace();
		}
		else {
			drawHead();
			void drawView();
			if (state.follow && !before.follow && summary && !summary.complete) void update();
		}
	});
	dark.addEventListener("change", adapt);
	addEventListener("keydown", key);
	addEventListener("visibilitychange", () => { if (!document.hidden && summary && !summary.complete && state.follow) void update(); });
	drawTabs();
	await loadTrace();
}

void start();
