// SPDX-License-Identifier: Apache-2.0
// A call tree laid out as boxes: columns of numbers, since there may be many. A layer
// hangs down from its root, or (callers of a pivot) grows up from it.
import type { Frame, Tree } from "./api";
import { frameColor } from "./palette";

export class Layer {
	readonly x: Float64Array;
	readonly w: Float64Array;
	readonly depth: Uint32Array;
	readonly deepest: number;
	/** Nodes by depth, from left to right. */
	readonly rows: Uint32Array[];
	/** Where the children of a node end: what the server left out comes after. */
	readonly used: Float64Array;
	private readonly next: Int32Array;
	private colors: Array<string | undefined> = [];
	hit: Uint8Array | null = null;
	/** By number of a frame: whether it is the selected function's; null if none is. */
	chosen: Uint8Array | null = null;

	constructor(readonly tree: Tree, readonly up: boolean) {
		const n = tree.value.length, whole = tree.value[0] || 1;
		this.x = new Float64Array(n);
		this.w = new Float64Array(n);
		this.used = new Float64Array(n);
		this.depth = new Uint32Array(n);
		this.next = new Int32Array(n).fill(-1);
		this.w[0] = tree.value[0] ? 1 : 0;
		const counts: number[] = [1];
		const last = new Int32Array(n).fill(-1);
		for (let i = 1; i < n; i++) {
			const p = tree.parent[i]!;
			this.w[i] = tree.value[i]! / whole;
			this.x[i] = this.x[p]! + this.used[p]!;
			this.used[p]! += this.w[i]!;
			const d = (this.depth[i] = this.depth[p]! + 1);
			counts[d] = (counts[d] ?? 0) + 1;
			if (last[p]! < 0) this.next[p] = i;
			last[p] = i;
		}
		this.deepest = counts.length - 1;
		this.rows = counts.map((count) => new Uint32Array(count));
		const at = counts.map(() => 0);
		for (let i = 0; i < n; i++) this.rows[this.depth[i]!]![at[this.depth[i]!]!++] = i;
	}

	frame(node: number): Frame {
		return this.tree.frames[this.tree.frame[node]!]!;
	}

	choose(name: string): void {
		this.chosen = name && this.tree.frames.some((f) => f.function === name) ? Uint8Array.from(this.tree.frames, (f) => (f.function === name ? 1 : 0)) : null;
	}

	color(node: number): string {
		const frame = this.tree.frame[node]!;
		return (this.colors[frame] ??= frameColor(this.tree.frames[frame]!));
	}

	firstChild(node: number): number {
		return this.next[node]!;
	}

	/** Marks what matches, and returns how much of the whole that is: a path counts once. */
	search(text: string, label: (node: number) => string): number {
		const n = this.tree.value.length;
		if (!text) {
			this.hit = null;
			return 0;
		}
		const wanted = text.toLowerCase(), known = new Map<number, boolean>();
		const hit = (this.hit = new Uint8Array(n)), inside = new Uint8Array(n);
		let sum = 0;
		for (let i = 1; i < n; i++) {
			const p = this.tree.parent[i]!, frame = this.tree.frame[i]!;
			inside[i] = inside[p]! | hit[p]!;
			let found = known.get(frame);
			if (found === undefined) known.set(frame, (found = label(i).toLowerCase().includes(wanted)));
			hit[i] = found ? 1 : 0;
			if (found && !inside[i]) sum += this.tree.value[i]!;
		}
		return sum;
	}

	/** The place in a row of the first box that ends after x. */
	firstAfter(row: Uint32Array, x: number): number {
		let low = 0, high = row.length;
		while (low < high) {
			const mid = (low + high) >> 1;
			if (this.x[row[mid]!]! + this.w[row[mid]!]! <= x) low = mid + 1;
			else high = mid;
		}
		return low;
	}

	/** The node at a depth and a place from 0 to 1; -1 if there is none. */
	find(depth: number, x: number): number {
		const row = this.rows[depth];
		if (!row) return -1;
		const node = row[this.firstAfter(row, x)];
		return node !== undefined && this.x[node]! <= x ? node : -1;
	}
}
