// SPDX-License-Identifier: Apache-2.0
// Paints the boxes of layers that are in sight. What is narrower than a pixel is
// joined with its neighbours, what the server left out is hatched: widths stay true.
import { color } from "./dom";
import type { Layer } from "./flame_layer";
import { middle } from "./format";
import type { Pen } from "./svg";

export const ROW = 19;

export interface Sight {
	width: number;
	height: number;
	top: number; // pixels that are scrolled away
	x0: number; // the part of the width that is in sight, 0 to 1
	span: number;
}
export interface Picture {
	layers: Layer[];
	/** The row on the screen of a depth of a layer; < 0: not drawn. */
	rowOf(layer: Layer, depth: number): number;
	label(layer: Layer, node: number): string;
	hover: { layer: Layer; node: number } | null;
	focus: { layer: Layer; node: number } | null;
}

interface Tools { text: string; outline: string; back: string; rest: string; root: string; letter: number }

function hatch(pen: Pen, tools: Tools, left: number, top: number, wide: number, count: number): void {
	pen.fillStyle = tools.rest;
	pen.fillRect(left, top, Math.max(0.5, wide - 0.6), ROW - 1);
	if (wide < 8) return;
	pen.strokeStyle = tools.back;
	pen.lineWidth = 1;
	pen.beginPath();
	for (let x = left; x < left + wide - 1; x += 6) {
		pen.moveTo(x, top + ROW - 1);
		pen.lineTo(Math.min(x + 6, left + wide - 0.6), top);
	}
	pen.stroke();
	const say = `${count} more`;
	if (say.length * tools.letter + 6 < wide) {
		pen.fillStyle = tools.text;
		pen.fillText(say, left + 3, top + ROW / 2);
	}
}

function paintRow(pen: Pen, picture: Picture, sight: Sight, tools: Tools, layer: Layer, depth: number, top: number): void {
	const row = layer.rows[depth]!, { x, w, tree, hit } = layer;
	const scale = sight.width / sight.span, end = sight.x0 + sight.span;
	let thinFrom = -1, thinTo = 0, thin = 0, style = "";
	const flush = () => {
		if (thin && thinTo - thinFrom > 0.7) {
			hatch(pen, tools, thinFrom, top, thinTo - thinFrom, thin);
			style = "";
		}
		thin = 0;
	};
	for (let k = layer.firstAfter(row, sight.x0); k < row.length; k++) {
		const node = row[k]!;
		if (x[node]! >= end) break;
		const from = Math.max(x[node]!, sight.x0);
		const left = (from - sight.x0) * scale;
		const wide = (Math.min(x[node]! + w[node]!, end) - from) * scale;
		if (wide < 0.9) {
			if (!thin || left - thinTo > 1) {
				flush();
				thinFrom = left;
			}
			thinTo = left + wide;
			thin++;
			continue;
		}
		flush();
		const fill = node ? layer.color(node) : tools.root;
		if (fill !== style) pen.fillStyle = style = fill;
		const faint = hit !== null && !hit[node];
		if (faint) pen.globalAlpha = 0.45;
		pen.fillRect(left, top, Math.max(0.5, wide - 0.6), ROW - 1);
		if (faint) pen.globalAlpha = 1;
		if (hit?.[node]) {
			pen.strokeStyle = tools.outline;
			pen.lineWidth = 2;
			pen.strokeRect(left + 1, top + 1, Math.max(1, wide - 2.6), ROW - 3);
		}
		const chars = Math.floor((wide - 6) / tools.letter);
		if (chars >= 3) {
			pen.fillStyle = style = tools.text;
			pen.fillText(middle(picture.label(layer, node), chars), left + 3, top + ROW / 2, wide - 4);
		}
		if (tree.left_out[node] && depth < layer.deepest + 1) paintRest(pen, picture, sight, tools, layer, node);
	}
	flush();
}

/** What the server left out of a node, below it. */
function paintRest(pen: Pen, picture: Picture, sight: Sight, tools: Tools, layer: Layer, node: number): void {
	const { tree } = layer;
	const scale = sight.width / sight.span;
	const self = tree.self[node]! / (tree.value[0] || 1);
	const from = layer.x[node]! + layer.used[node]!, wide = (layer.w[node]! - layer.used[node]! - self) * scale;
	const left = (from - sight.x0) * scale;
	const row = picture.rowOf(layer, layer.depth[node]! + 1);
	const top = row * ROW - sight.top;
	if (wide < 2 || row < 0 || top > sight.height || left > sight.width || left + wide < 0) return;
	hatch(pen, tools, left, top, Math.min(wide, sight.width - left), tree.left_out[node]!);
}

function outline(pen: Pen, picture: Picture, sight: Sight, at: { layer: Layer; node: number }, style: string): void {
	const scale = sight.width / sight.span, row = picture.rowOf(at.layer, at.layer.depth[at.node]!);
	pen.strokeStyle = style;
	pen.lineWidth = 1.5;
	pen.strokeRect((at.layer.x[at.node]! - sight.x0) * scale + 0.75, row * ROW - sight.top + 0.75, Math.max(1, at.layer.w[at.node]! * scale - 2), ROW - 2.5);
}

export function paintFlame(pen: Pen, picture: Picture, sight: Sight): void {
	pen.clearRect(0, 0, sight.width, sight.height);
	pen.font = "12px system-ui, sans-serif";
	pen.textBaseline = "middle";
	pen.textAlign = "left";
	const tools: Tools = { text: color("flame-text"), outline: color("accent"), back: color("back"), rest: color("rest"), root: color("root"), letter: pen.measureText("n").width };
	for (const layer of picture.layers)
		for (let depth = 0; depth <= layer.deepest; depth++) {
			const row = picture.rowOf(layer, depth), top = row * ROW - sight.top;
			if (row >= 0 && top > -ROW && top < sight.height) paintRow(pen, picture, sight, tools, layer, depth, top);
		}
	if (picture.focus && picture.focus.node) outline(pen, picture, sight, picture.focus, tools.outline);
	if (picture.hover) outline(pen, picture, sight, picture.hover, tools.text);
}
