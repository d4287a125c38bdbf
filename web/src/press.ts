// SPDX-License-Identifier: Apache-2.0
// What comes from the server is drawn only while no pointer is down: what is pressed and
// released on two different elements is no click, and a page that follows a program draws
// its elements anew all the time.

const LONGEST = 10000; // ms: a release that nobody tells (of a scroll bar, outside the window) holds nothing up for long

let pressed = 0; // when; 0: nothing is pressed
let waiting: Array<() => void> = [];

function release(): void {
	pressed = 0;
	const all = waiting;
	waiting = [];
	/* The click itself comes after the release. */
	setTimeout(() => all.forEach((go) => go()));
}

addEventListener("pointerdown", () => {
	const mine = (pressed = performance.now());
	setTimeout(() => pressed === mine && release(), LONGEST);
}, { capture: true });
addEventListener("pointermove", (e) => pressed && !e.buttons && release(), { capture: true });
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, release, { capture: true });
addEventListener("blur", release); // of the window

/** Waits until nothing is pressed. */
export function released(): Promise<void> {
	return new Promise((done) => (pressed ? waiting.push(done) : done()));
}
