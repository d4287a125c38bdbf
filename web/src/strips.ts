// SPDX-License-Identifier: Apache-2.0
// Very many narrow boxes at once: each row of them is one line of pixels, written as
// numbers and stretched to its height when it is drawn.

const known = new Map<string, number>();
let probe: CanvasRenderingContext2D | null = null;

/** A colour of a style sheet as a pixel. */
function pixel(style: string): number {
	let found = known.get(style);
	if (found !== undefined) return found;
	probe ??= Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true })!;
	probe.fillStyle = style;
	probe.fillRect(0, 0, 1, 1);
	found = new Uint32Array(probe.getImageData(0, 0, 1, 1).data.buffer)[0]!;
	known.set(style, found);
	return found;
}

export class Strips {
	private canvas = document.createElement("canvas");
	private ctx = this.canvas.getContext("2d")!;
	private image: ImageData | null = null;
	private pixels = new Uint32Array(0);
	private width = 0;

	/** Begins anew, for rows of so many pixels. */
	begin(width: number, rows: number): void {
		if (width !== this.width || rows > (this.image?.height ?? 0)) {
			this.width = this.canvas.width = Math.max(1, width);
			this.canvas.height = Math.max(1, rows);
			this.image = this.ctx.createImageData(this.canvas.width, this.canvas.height);
			this.pixels = new Uint32Array(this.image.data.buffer);
		} else this.pixels.fill(0);
	}

	put(row: number, from: number, to: number, style: string): void {
		const value = pixel(style), start = row * this.width;
		for (let x = Math.max(0, from), end = Math.min(this.width, to); x < end; x++) this.pixels[start + x] = value;
	}

	/** Draws each row at its place. */
	draw(pen: CanvasRenderingContext2D, tops: number[], height: number, width: number): void {
		if (!this.image || !tops.length) return;
		this.ctx.putImageData(this.image, 0, 0);
		pen.imageSmoothingEnabled = false;
		tops.forEach((top, row) => pen.drawImage(this.canvas, 0, row, this.width, 1, 0, top, width, height));
	}
}
