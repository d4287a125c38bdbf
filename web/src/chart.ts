// SPDX-License-Identifier: Apache-2.0
// Curves over time on a canvas: lines, an area between minimum and maximum, and
// areas one above the other. Zero is on the axis.
import { steps, timeLabel, timeSteps } from "./axis";
import { color, fitCanvas } from "./dom";
import type { Pen } from "./svg";

export interface Series {
	name: string;
	values: number[]; // one per point
	color: string;
	kind: "line" | "area" | "stack" | "dashed" | "bars";
	low?: number[]; // with "area": the lower edge of what was seen within a point
}
export interface ChartData {
	ends: number[]; // ns: where each point ends
	from: number;
	to: number;
	series: Series[];
	unit: (value: number) => string;
}
export interface Layout { left: number; right: number; top: number; bottom: number; width: number; height: number; max: number }

export function xOf(data: ChartData, box: Layout, ns: number): number {
	const span = Math.max(1, data.to - data.from);
	return box.left + ((ns - data.from) / span) * (box.width - box.left - box.right);
}
export function timeOf(data: ChartData, box: Layout, x: number): number {
	const share = (x - box.left) / Math.max(1, box.width - box.left - box.right);
	return data.from + Math.max(0, Math.min(1, share)) * (data.to - data.from);
}
export function pointAt(data: ChartData, ns: number): number {
	let low = 0, high = data.ends.length - 1;
	while (low < high) {
		const mid = (low + high) >> 1;
		if (data.ends[mid]! < ns) low = mid + 1;
		else high = mid;
	}
	return low;
}

function largest(data: ChartData): number {
	let max = 0;
	const stacked = data.series.filter((s) => s.kind === "stack");
	for (let i = 0; i < data.ends.length; i++) {
		let sum = 0;
		for (const s of stacked) sum += s.values[i] ?? 0;
		max = Math.max(max, sum);
	}
	for (const s of data.series) if (s.kind !== "stack") for (const v of s.values) if (v > max) max = v;
	return max;
}

function drawAxes(ctx: Pen, data: ChartData, box: Layout): void {
	const ticks = steps(box.max, Math.max(2, Math.floor((box.height - box.top - box.bottom) / 36)));
	ctx.font = "11px system-ui, sans-serif";
	ctx.textBaseline = "middle";
	ctx.lineWidth = 1;
	for (const v of ticks) {
		const y = yOf(box, v);
		ctx.strokeStyle = color("grid");
		ctx.beginPath();
		ctx.moveTo(box.left, Math.round(y) + 0.5);
		ctx.lineTo(box.width - box.right, Math.round(y) + 0.5);
		ctx.stroke();
		ctx.fillStyle = color("muted");
		ctx.textAlign = "right";
		ctx.fillText(data.unit(v), box.left - 6, y);
	}
	ctx.textBaseline = "top";
	ctx.textAlign = "center";
	const inner = box.width - box.left - box.right;
	for (const t of timeSteps(data.from, data.to, Math.max(2, Math.floor(inner / 90)))) {
		const x = xOf(data, box, t);
		const text = timeLabel(t, data.to - data.from);
		const half = ctx.measureText(text).width / 2;
		if (x - half < box.left - 30 || x + half > box.width) continue;
		ctx.fillText(text, x, box.height - 15);
	}
}

export function yOf(box: Layout, value: number): number {
	const inner = box.height - box.top - box.bottom;
	return box.top + inner * (1 - (box.max ? value / box.max : 0));
}

function path(ctx: Pen, data: ChartData, box: Layout, values: number[], back?: number[]): void {
	ctx.beginPath();
	data.ends.forEach((t, i) => {
		const x = xOf(data, box, t);
		const y = yOf(box, values[i] ?? 0);
		if (i === 0) ctx.moveTo(Math.min(x, xOf(data, box, data.from)), y);
		ctx.lineTo(x, y);
	});
	if (!back) return;
	for (let i = data.ends.length - 1; i >= 0; i--) ctx.lineTo(xOf(data, box, data.ends[i]!), yOf(box, back[i] ?? 0));
	ctx.lineTo(xOf(data, box, data.from), yOf(box, back[0] ?? 0));
	ctx.closePath();
}

function drawBars(ctx: Pen, data: ChartData, box: Layout, s: Series): void {
	ctx.fillStyle = s.color;
	let left = xOf(data, box, data.from);
	data.ends.forEach((t, i) => {
		const right = xOf(data, box, t);
		const y = yOf(box, s.values[i] ?? 0);
		ctx.fillRect(left, y, Math.max(1, right - left - (right - left > 3 ? 1 : 0)), box.height - box.bottom - y);
		left = right;
	});
}

/** Draws all, returns where it is. `below` leaves room above the axis of time. */
export function drawChart(canvas: HTMLCanvasElement, data: ChartData, below = 0): Layout {
	const { ctx, width, height } = fitCanvas(canvas);
	return drawOn(ctx, width, height, data, below);
}

export function drawOn(ctx: Pen, width: number, height: number, data: ChartData, room = 0): Layout {
	const box: Layout = { left: 62, right: 12, top: 10, bottom: 20 + room, width, height, max: largest(data) * 1.05 };
	ctx.clearRect(0, 0, width, height);
	drawAxes(ctx, data, box);
	let below = data.ends.map(() => 0);
	for (const s of data.series) {
		if (s.kind === "stack") {
			const above = s.values.map((v, i) => v + below[i]!);
			path(ctx, data, box, above, below);
			ctx.fillStyle = s.color;
			ctx.fill();
			below = above;
		} else if (s.kind === "bars") {
			drawBars(ctx, data, box, s);
		} else if (s.kind === "area") {
			path(ctx, data, box, s.values, s.low ?? data.ends.map(() => 0));
			ctx.fillStyle = s.color;
			ctx.fill();
		} else {
			path(ctx, data, box, s.values);
			ctx.strokeStyle = s.color;
			ctx.lineWidth = 1.5;
			ctx.setLineDash(s.kind === "dashed" ? [3, 3] : []);
			ctx.stroke();
			ctx.setLineDash([]);
		}
	}
	return box;
}
