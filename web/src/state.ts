// SPDX-License-Identifier: Apache-2.0
// Everything that decides what is on the screen, and its place: the address.
// Views read it and ask for changes; nobody keeps a copy.

export const modes = {
	peak: { title: "live at the peak", help: "what was live when the heap was largest, within the range", bytes: "peak_bytes", blocks: "peak_allocations" },
	live: { title: "live at the end of the range", help: "what was live at the end of the range; of a whole run: unfreed. Unfreed is not a leak", bytes: "unfreed_bytes", blocks: "unfreed_allocations" },
	allocated: { title: "allocated in the range", help: "everything that was allocated in the range, freed since or not", bytes: "allocated_bytes", blocks: "allocations" },
	surviving: { title: "allocated and still live", help: "allocated in the range and live at its end", bytes: "surviving_bytes", blocks: "surviving_allocations" },
	held: { title: "held over time", help: "the size of each block times how long it was held within the range: what memory costs, not how often", bytes: "allocated_bytes", blocks: "allocations" },
	freed: { title: "freed in the range", help: "what was freed in the range, by the stack that had allocated it", bytes: "freed_bytes", blocks: "frees" },
} as const;
export type Mode = keyof typeof modes;

export const costs = { bytes: "bytes", blocks: "blocks", temporary: "temporary allocations" } as const;
export type Cost = keyof typeof costs;

export interface State {
	trace: string;
	view: string;
	from: number | null; // ns
	to: number | null;
	mode: Mode;
	cost: Cost;
	filter: string;
	fold: string; // kinds, separated by commas
	fn: string; // the selected function
	direction: "top_down" | "bottom_up";
	merge: "function" | "line" | "module";
	pivot: string; // a function: who calls it above, what it calls below
	zoomFrom: number | null; // ns: the part of the run that the timeline shows
	zoomTo: number | null;
	sites: boolean; // the timeline is stacked by site
	rss: string; // the curve of RSS: "on", "off", or "" = where it does not dwarf the heap
	fine: boolean; // sizes in eighths of a doubling
	change: string; // which rows of a diff
	rows: string; // what they stand for: "" = sites
	shade: string; // what its colours tell: "" = relative change, "absolute"
	path: string; // node keys: what a flame graph or tree is zoomed to
	search: string;
	group: string;
	sort: string;
	file: string; // of the source view
	line: number;
	with: string; // trace to compare with
	baseFrom: number | null; // range to compare with
	baseTo: number | null;
	follow: boolean;
}

const initial: State = {
	trace: "", view: "overview", from: null, to: null, mode: "peak", cost: "bytes", filter: "", fold: "", fn: "",
	direction: "top_down", merge: "function", pivot: "", zoomFrom: null, zoomTo: null, sites: false, rss: "", fine: false, change: "", rows: "", shade: "", path: "", search: "", group: "function", sort: "", file: "", line: 0, with: "",
	baseFrom: null, baseTo: null, follow: true,
};

export let state: State = read();
const listeners = new Set<(before: State) => void>();

function read(): State {
	const found: Record<string, unknown> = { ...initial };
	for (const [name, text] of new URLSearchParams(location.search)) {
		if (!(name in initial)) continue;
		const like = initial[name as keyof State];
		if (["from", "to", "baseFrom", "baseTo", "zoomFrom", "zoomTo"].includes(name)) {
			const value = Number(text);
			if (Number.isFinite(value) && value >= 0) found[name] = value;
		} else if (typeof like === "boolean") found[name] = text === "1";
		else if (typeof like === "number") found[name] = Number(text) || 0;
		else found[name] = text;
	}
	if (!((found.mode as string) in modes)) found.mode = initial.mode;
	if (!((found.cost as string) in costs)) found.cost = initial.cost;
	if (!["function", "line", "module"].includes(found.merge as string)) found.merge = initial.merge;
	if (found.direction !== "bottom_up") found.direction = "top_down";
	return found as unknown as State;
}

export function address(of: State): string {
	const params = new URLSearchParams();
	for (const [name, value] of Object.entries(of)) {
		const like = initial[name as keyof State];
		if (value === like || value === null || value === "") continue;
		params.set(name, typeof value === "boolean" ? (value ? "1" : "0") : String(value));
	}
	const text = params.toString();
	return text ? "?" + text : location.pathname;
}

/** Changes some of it. A step that the back button should undo is kept. */
export function go(change: Partial<State>, keep = true): void {
	const before = state;
	state = { ...state, ...change };
	const url = address(state);
	if (url === address(before)) return;
	if (keep) history.pushState(null, "", url);
	else history.replaceState(null, "", url);
	listeners.forEach((listener) => listener(before));
}

export function onChange(listener: (before: State) => void): void {
	listeners.add(listener);
}

addEventListener("popstate", () => {
	const before = state;
	state = read();
	listeners.forEach((listener) => listener(before));
});

/** The figure that the present mode and cost stand for, as the server calls it. */
export function figure(of: State = state): string {
	if (of.cost === "temporary" && of.mode !== "held") return "temporary_allocations";
	return modes[of.mode][of.cost === "bytes" ? "bytes" : "blocks"];
}

export function isBytes(of: State = state): boolean {
	return of.cost === "bytes";
}
