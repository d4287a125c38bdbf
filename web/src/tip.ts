// SPDX-License-Identifier: Apache-2.0
// One small box that explains what is under the pointer, has the focus, or was tapped.
import { type Child, clear, h } from "./dom";

const tip = h("div", { class: "tip", role: "tooltip" });

/** Shows it near a place; null hides it. */
export function showTip(content: Child[] | null, x = 0, y = 0): void {
	if (!content) {
		tip.remove();
		return;
	}
	clear(tip, ...content);
	if (!tip.isConnected) document.body.append(tip);
	const box = tip.getBoundingClientRect();
	tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
	tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + "px";
}

/** For what draws its own: a finger that is lifted leaves the tip where it is. */
export function hideTip(event: PointerEvent): void {
	if (event.pointerType !== "touch") showTip(null);
}

/** The tip of an element: by pointer, by keyboard, by tap (it then stays until the next one). */
export function explain<T extends HTMLElement>(element: T, make: () => Child[]): T {
	const show = (e: PointerEvent) => showTip(make(), e.clientX, e.clientY);
	element.addEventListener("pointerenter", show);
	element.addEventListener("pointermove", show);
	element.addEventListener("pointerleave", hideTip);
	element.addEventListener("focus", () => {
		if (!element.matches(":focus-visible")) return;
		const box = element.getBoundingClientRect();
		showTip(make(), box.left, box.bottom - 14);
	});
	element.addEventListener("blur", () => showTip(null));
	if (element.tabIndex < 0) element.tabIndex = 0;
	return element;
}

addEventListener("pointerdown", (e) => e.pointerType === "touch" && showTip(null), { capture: true });
addEventListener("scroll", () => showTip(null), { capture: true, passive: true });
