// SPDX-License-Identifier: Apache-2.0
// Elements from code. Text is always text: a name from a trace can never become markup.

export type Child = Node | string | number | null | undefined | false;
type Props = Record<string, unknown>;

/** h("td", {class: "num", onclick: f}, "text", child) */
export function h<K extends keyof HTMLElementTagNameMap>(
	tag: K,
	props: Props = {},
	...children: Child[]
): HTMLElementTagNameMap[K] {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(props)) {
		if (value === undefined || value === null || value === false) continue;
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
		else if (name === "class") element.className = String(value);
		else if (name in element && typeof value !== "string") Object.assign(element, { [name]: value });
		else element.setAttribute(name, value === true ? "" : String(value));
	}
	put(element, ...children);
	return element;
}

export function put(element: Element, ...children: Child[]): void {
	for (const child of children)
		if (child !== null && child !== undefined && child !== false)
			element.append(typeof child === "number" ? String(child) : child);
}

export function clear(element: Element, ...children: Child[]): void {
	element.replaceChildren();
	put(element, ...children);
}

/** A canvas that is sharp on any screen; draws in CSS pixels. */
export function fitCanvas(canvas: HTMLCanvasElement): { ctx: CanvasRenderingContext2D; width: number; height: number } {
	const ratio = window.devicePixelRatio || 1;
	const width = canvas.clientWidth;
	const height = canvas.clientHeight;
	const wide = Math.max(1, Math.round(width * ratio));
	const high = Math.max(1, Math.round(height * ratio));
	if (canvas.width !== wide || canvas.height !== high) {
		canvas.width = wide;
		canvas.height = high;
	}
	const ctx = canvas.getContext("2d")!;
	ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
	return { ctx, width, height };
}

/** A colour of the style sheet, as it is now (light or dark). */
export function color(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

export function download(name: string, content: Blob): void {
	const url = URL.createObjectURL(content);
	h("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 10000);
}
