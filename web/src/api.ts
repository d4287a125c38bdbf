// SPDX-License-Identifier: Apache-2.0
// Requests. A newer request of the same name cancels the older; answers are kept
// for a while, since several views ask the same.
import { released } from "./press";
import { isSaved, savedAnswer } from "./saved";
import { state, type State } from "./state";

export class ApiError extends Error {
	constructor(message: string, readonly status: number) {
		super(message);
	}
}

export type Figures = Record<string, number>;
export interface Frame {
	function: string | null; module: string; address: string; file: string | null; line: number | null;
	column: number | null; inlined: boolean; source: string; kind: string; package: string | null;
}
export interface Found {
	from_ns: number; to_ns: number; mode: string; found_by: string; event_blocks_read: number;
	unread_events: number; snapped: boolean; peak_time_ns: number; totals: Figures;
}
export interface TraceEntry { id: string; name: string; file_bytes: number; changed_unix_ns: number; state: string }
export interface Summary {
	program: string | null; command: string | null; pid: number; start_time: string | null; duration_ns: number;
	mode: string; end: string; exit_status: number | null; signal: number | null; threads: number;
	allocations: number; frees: number; allocated_bytes: number; temporary_allocations: number; peak_bytes: number;
	peak_allocations: number; peak_time_ns: number; unfreed_allocations: number; unfreed_bytes: number;
	peak_rss_bytes: number | null; lost_events: number; warning: string | null; complete: boolean; version: number;
	file_bytes: number; changed_unix_ns: number; series: string | null;
	unnamed_percent: number; rss: Record<string, number | string | null> | null; source: string; freed_older: number;
	unknown?: string[]; facts?: string[]; origin?: string | null; piece?: number | null;
	folded_events?: number; exact_since_ns?: number; culled_events?: number; cull_ns?: number;
	events: number; events_not_stored?: number; peak_bytes_error?: number; unfreed_bytes_error?: number; allocated_bytes_error?: number; stacks: number; sections: number; host: string | null; note: string | null;
}
export interface Timeline {
	from_ns: number; to_ns: number; start_ns: number[]; end_ns: number[]; live_bytes: number[]; live_blocks: number[];
	min_live_bytes: number[]; max_live_bytes: number[]; allocations: number[]; allocated_bytes: number[];
	frees: number[]; freed_bytes: number[]; temporary: number[]; mapped_bytes: number[]; rss_bytes: number[];
	marks?: Array<{ time_ns: number; name: string }>; pauses?: Array<{ start_ns: number; end_ns: number }>;
	modes?: Array<{ time_ns: number; name: string }>;
	sites: Array<{ function: string | null; module: string; live_bytes: number[]; live_blocks: number[];
		allocations: number[]; temporary: number[] }>;
}
export interface Row {
	function: string | null; module: string | null; file: string | null; line: number | null; package: string | null;
	self?: Figures; inclusive?: Figures; stack_count?: number;
	stacks?: Array<Figures & { stack: number; frames: Frame[] }>;
}
export type FigureRow = Row & Figures;
export interface Table extends Found { order: string; rows: Row[]; count: number }
export interface Tree extends Found {
	order: string; frames: Frame[]; frame: number[]; key: number[]; parent: number[]; left_out: number[];
	value: number[]; self: number[]; other: number[];
}
/** A named moment, or one at which recording was paused, went on, or changed its mode. */
export interface Mark { time_ns: number; kind: "mark" | "pause" | "resume" | "mode"; name: string }
export interface Bucket { least: number; most: number; count: number; sites: Array<{ function: string | null; count: number }> }

const kept = new Map<string, unknown>();
const pending = new Map<string, AbortController>();
const KEPT_MAX = 60;

/** The part of the state that every view follows. */
export function selection(of: State = state): Record<string, string> {
	const params: Record<string, string> = { mode: of.mode };
	if (of.from !== null) params.from = of.from / 1e9 + "s";
	if (of.to !== null) params.to = of.to / 1e9 + "s";
	if (of.filter) params.filter = of.filter;
	if (of.fold) params.fold = of.fold;
	return params;
}

async function fetchJson<T>(url: string, signal?: AbortSignal): Promise<T> {
	let response: Response;
	try {
		response = await fetch(url, signal ? { signal } : {});
	} catch (error) {
		if ((error as Error).name === "AbortError") throw error;
		throw new ApiError("The server does not answer. Is 'tidemark serve' still running?", 0);
	}
	/* Another request may take its place while the answer is being read. */
	const body = await response.json().catch((error) => {
		if (isCancelled(error)) throw error;
		return null;
	});
	await released();
	if (signal?.aborted) throw signal.reason;
	if (!response.ok) throw new ApiError(body?.error?.message ?? `The server says ${response.status}.`, response.status);
	if (body === null) throw new ApiError("The answer was cut off. Is 'tidemark serve' still running?", 0);
	return body as T;
}

export function address(path: string, params: Record<string, string | number | boolean>): string {
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(params))
		query.set(name, typeof value === "boolean" ? (value ? "1" : "0") : String(value));
	const text = query.toString();
	return "/api/v1" + path + (text ? "?" + text : "");
}

export function list(): Promise<{ traces: TraceEntry[] }> {
	if (isSaved) return Promise.resolve({ traces: [{ id: "saved", name: "saved page", file_bytes: 0, changed_unix_ns: 0, state: "ready" }] });
	return fetchJson(address("/traces", {}));
}

export { isSaved };

export function status(trace: string, cancel = false): Promise<{ state: string; done_events: number; total_events: number }> {
	return fetchJson(address("/traces/" + encodeURIComponent(trace), cancel ? { cancel } : {}));
}

/** Rises when the trace has changed: what was drawn before is old. */
export let edition = 0;

/** Forget what is kept: the trace has grown, or is another one. */
export function forget(): void {
	kept.clear();
	edition++;
}

/** A request about the present trace. `name` is who asks: one at a time. */
export async function ask<T>(name: string, what: string, params: Record<string, string | number | boolean> = {},
	trace = state.trace): Promise<T> {
	if (isSaved) {
		const saved = savedAnswer(what, params);
		if (saved) return saved as T;
		throw new ApiError("This saved page holds the whole run only. For ranges, filters and single blocks open the trace with 'tidemark serve'.", 404);
	}
	const url = address(`/traces/${encodeURIComponent(trace)}/${what}`, params);
	pending.get(name)?.abort();
	const known = kept.get(url);
	if (known) return known as T;
	const controller = new AbortController();
	pending.set(name, controller);
	try {
		const answer = await fetchJson<T>(url, controller.signal);
		kept.set(url, answer);
		if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value as string);
		return answer;
	} finally {
		if (pending.get(name) === controller) pending.delete(name);
	}
}

export function isCancelled(error: unknown): boolean {
	return (error as Error)?.name === "AbortError";
}
