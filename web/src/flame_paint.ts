// SPDX-License-Identifier: Apache-2.0
// Paints the boxes of layers that are in sight. What is narrower than a pixel is
// joined with its neighbours, what the server left out is hatched: widths stay true.
import { color } from "./dom";
import type { Layer } from "./flame_layer";
import { middle } from "./format";
import { Strips } from "./strips";
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

interface Tools { text: string; outline: string; back: string; rest: string; root: string; letter: number; dots: number; narrow: Narrow }

/** Where boxes without text go: into lines of pixels on a screen, else each by itself. */
interface Narrow { row: number; add(from: number, to: number, top: number, style: string): void }

const strips = new Strips();

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

function paintRow(pen: Pen, picture: Picture, sight: Sight, tools: Tools, layer: Layer, depth: number, top: number): number {
	const row = layer.rows[depth]!, { x, w, tree, hit } = layer;
	const scale = sight.width / sight.span, end = sight.x0 + sight.span;
	const dots = tools.dots;
	let thinFrom = -1, thinTo = 0, thin = 0, drawn = 0, style = "";
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
		drawn++;
		const fill = node ? layer.color(node) : tools.root;
		if (wide < 24 && !hit && !layer.chosen) {
			/* The gap to the next is one pixel where there is room for one. */
			const x0 = Math.round(left * dots), x1 = Math.max(x0 + 1, Math.round((left + wide) * dots) - (wide > 2.5 ? 1 : 0));
			tools.narrow.add(x0, x1, top, fill);
			if (tree.left_out[node]) paintRest(pen, picture, sight, tools, layer, node);
			continue;
		}
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
		if (layer.chosen?.[tree.frame[node]!] && node) {
			pen.strokeStyle = tools.outline;
			pen.lineWidth = 1;
			pen.strokeRect(left + 0.5, top + 0.5, Math.max(0.5, wide - 1.6), ROW - 2);
		}
		const chars = Math.floor((wide - 6) / tools.letter);
		if (chars >= 3) {
			pen.fillStyle = style = tools.text;
			pen.fillText(middle(picture.label(layer, node), chars), left + 3, top + ROW / 2, wide - 4);
		}
		if (tree.left_out[node]) paintRest(pen, picture, sight, tools, layer, node);
	}
	flush();
	return drawn;
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

/** Draws all that is in sight; returns how many boxes that was. */
export function paintFlame(pen: Pen, picture: Picture, sight: Sight): number {
	let drawn = 0;
	const screen = pen instanceof CanvasRenderingContext2D ? pen : null, dots = window.devicePixelRatio || 1;
	const tops: number[] = [];
	const narrow: Narrow = screen ? { row: 0, add: (from, to, _top, style) => strips.put(narrow.row, from, to, style) }
		: { row: 0, add: (from, to, top, style) => { pen.fillStyle = style; pen.fillRect(from / dots, top, (to - from) / dots, ROW - 1); } };
	if (screen) strips.begin(Math.round(sight.width * dots), Math.ceil(sight.height / ROW) + 2);
	pen.clearRect(0, 0, sight.width, sight.height);
	pen.font = "12px system-ui, sans-serif";
	pen.textBaseline = "middle";
	pen.textAlign = "left";
	const tools: Tools = { text: color("flame-text"), outline: color("accent"), back: color("back"), rest: color("rest"), root: color("root"), letter: pen.measureText("n").width, dots, narrow };
	for (const layer of picture.layers)
		for (let depth = 0; depth <= layer.deepest; depth++) {
			const row = picture.rowOf(layer, depth), top = row * ROW - sight.top;
			if (row >= 0 && top > -ROW && top < sight.height) {
				narrow.row = tops.push(top) - 1;
				drawn += paintRow(pen, picture, sight, tools, layer, depth, top);
			}
		}
	if (screen) strips.draw(screen, tops, ROW - 1, sight.width);
	if (picture.focus && picture.focus.node) outline(pen, picture, sight, picture.focus, tools.outline);
	if (picture.hover) outline(pen, picture, sight, picture.hover, tools.text);
	return drawn;
}
