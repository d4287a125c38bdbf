// SPDX-License-Identifier: Apache-2.0
// Scales and their labels.
import { bytes, count, duration } from "./format";

/** Steps of 1, 2 or 5 so that about `wanted` fit into [0, max], and one above 0 at least. */
export function steps(max: number, wanted: number): number[] {
	if (!(max > 0)) return [0];
	const raw = max / Math.max(1, wanted);
	const power = Math.pow(10, Math.floor(Math.log10(raw)));
	const sizes = [1, 2, 5, 10].map((m) => m * power);
	const step = sizes.find((s) => s >= raw && s <= max) ?? sizes.filter((s) => s <= max).pop() ?? raw;
	const out: number[] = [];
	for (let v = 0; v <= max * 1.0001; v += step) out.push(v);
	return out;
}

/** Moments between two times, on round figures. */
export function timeSteps(from: number, to: number, wanted: number): number[] {
	const units = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 5e9, 1e10, 3e10, 6e10, 3e11, 6e11, 1.8e12, 3.6e12, 2.16e13, 8.64e13];
	const span = Math.max(1, to - from);
	let step = units.find((u) => span / u <= wanted) ?? span / wanted;
	for (const part of [0.2, 0.5]) if (span / (step * part) <= wanted) { step *= part; break; }
	const out: number[] = [];
	for (let t = Math.ceil(from / step) * step; t <= to; t += step) out.push(t);
	return out;
}

export function timeLabel(ns: number, span: number): string {
	if (span >= 600e9) return duration(ns);
	const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(span / 1e9))));
	return (ns / 1e9).toFixed(Math.min(digits, span > 20e9 ? 0 : digits)) + " s";
}

export const label = { bytes, count };
