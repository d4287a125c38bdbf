// SPDX-License-Identifier: Apache-2.0
// A canvas that writes SVG: the part of its interface that our drawings use, so that
// a chart and its vector file come from one drawing.

const escape = (text: string) => text.replace(/[&<>"'\u0000-\u001f]/g, (c) => (c < " " ? "\ufffd" : `&#${c.charCodeAt(0)};`));
const round = (value: number) => String(Math.round(value * 100) / 100);

export type Pen = Pick<CanvasRenderingContext2D, "fillStyle" | "strokeStyle" | "lineWidth" | "globalAlpha" | "font" | "textAlign" | "textBaseline"
	| "beginPath" | "moveTo" | "lineTo" | "closePath" | "arc" | "fill" | "stroke" | "fillRect" | "strokeRect" | "clearRect" | "setLineDash">
	& { fillText(text: string, x: number, y: number, wide?: number): void; measureText(text: string): { width: number } };

export class SvgPen implements Pen {
	fillStyle: string | CanvasGradient | CanvasPattern = "#000";
	strokeStyle: string | CanvasGradient | CanvasPattern = "#000";
	lineWidth = 1;
	globalAlpha = 1;
	font = "12px sans-serif";
	textAlign: CanvasTextAlign = "left";
	textBaseline: CanvasTextBaseline = "alphabetic";
	private out: string[] = [];
	private path = "";
	private dash: number[] = [];
	private ruler = document.createElement("canvas").getContext("2d")!;

	constructor(private width: number, private height: number, private back: string) {}

	private look(fill: string, stroke: string): string {
		return `fill="${fill}" stroke="${stroke}"` + (stroke !== "none" ? ` stroke-width="${this.lineWidth}"` : "")
			+ (this.globalAlpha < 1 ? ` opacity="${round(this.globalAlpha)}"` : "") + (this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "");
	}

	beginPath(): void { this.path = ""; }
	moveTo(x: number, y: number): void { this.path += `M${round(x)} ${round(y)}`; }
	lineTo(x: number, y: number): void { this.path += `L${round(x)} ${round(y)}`; }
	closePath(): void { this.path += "Z"; }
	arc(x: number, y: number, r: number): void { this.path += `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`; }
	fill(): void { this.out.push(`<path d="${this.path}" ${this.look(String(this.fillStyle), "none")}/>`); }
	stroke(): void { this.out.push(`<path d="${this.path}" ${this.look("none", String(this.strokeStyle))}/>`); }
	fillRect(x: number, y: number, w: number, h: number): void { this.box(x, y, w, h, this.look(String(this.fillStyle), "none")); }
	strokeRect(x: number, y: number, w: number, h: number): void { this.box(x, y, w, h, this.look("none", String(this.strokeStyle))); }
	clearRect(): void { this.out = []; }
	setLineDash(dash: Iterable<number>): void { this.dash = [...dash]; }
	measureText(text: string): { width: number } { this.ruler.font = this.font; return this.ruler.measureText(text); }

	private box(x: number, y: number, w: number, h: number, look: string): void {
		this.out.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(Math.max(0, w))}" height="${round(Math.max(0, h))}" ${look}/>`);
	}

	fillText(text: string, x: number, y: number): void {
		const anchor = this.textAlign === "right" ? "end" : this.textAlign === "center" ? "middle" : "start";
		const size = Number.parseFloat(this.font) || 12;
		const down = this.textBaseline === "middle" ? size * 0.35 : this.textBaseline === "top" ? size * 0.85 : 0;
		this.out.push(`<text x="${round(x)}" y="${round(y + down)}" text-anchor="${anchor}" font-size="${size}" fill="${String(this.fillStyle)}">${escape(text)}</text>`);
	}

	/** What the next shapes are, for whoever hovers over the file. */
	title(text: string): void { this.out.push(`<title>${escape(text)}</title>`); }
	open(): void { this.out.push("<g>"); }
	shut(): void { this.out.push("</g>"); }

	blob(): Blob {
		return new Blob([`<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" font-family="system-ui, sans-serif">\n`,
			`<rect width="100%" height="100%" fill="${this.back}"/>\n`, this.out.join("\n"), "\n</svg>\n"], { type: "image/svg+xml" });
	}
}

/** A canvas of its own size, drawn by the same code, as a picture. */
export function pngOf(width: number, height: number, back: string, draw: (pen: CanvasRenderingContext2D) => void): Promise<Blob | null> {
	const canvas = document.createElement("canvas");
	canvas.width = width * 2;
	canvas.height = height * 2;
	const ctx = canvas.getContext("2d")!;
	ctx.scale(2, 2);
	draw(ctx);
	/* Under what was drawn, since drawing begins by clearing. */
	ctx.globalCompositeOperation = "destination-over";
	ctx.fillStyle = back;
	ctx.fillRect(0, 0, width, height);
	return new Promise((done) => canvas.toBlob(done));
}
