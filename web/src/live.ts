// SPDX-License-Identifier: Apache-2.0
// What the server tells by itself: traces that come, a file that grows or is replaced,
// how far reading is. A server that was restarted is found again, and all is asked anew.
import { isSaved } from "./api";

export interface FileNews { id: string; file_bytes: number; changed_unix_ns: number; state: string; done_events: number; total_events: number }
export interface LiveEvents {
	onTraces(): void;
	onFile(news: FileNews): void;
	onLost(): void;
	onBack(): void;
}

export class Live {
	private source: EventSource | null = null;
	private watched = "";
	private lost = false;
	private again = 0;

	constructor(private events: LiveEvents) {}

	watch(trace: string): void {
		if (isSaved || (trace === this.watched && this.source)) return;
		this.watched = trace;
		this.connect();
	}

	private connect(): void {
		this.source?.close();
		clearTimeout(this.again);
		const source = (this.source = new EventSource("/api/v1/events?watch=" + encodeURIComponent(this.watched)));
		source.addEventListener("traces", () => this.events.onTraces());
		source.addEventListener("trace", (e) => this.events.onFile(JSON.parse((e as MessageEvent).data) as FileNews));
		source.onopen = () => {
			if (this.lost) this.events.onBack();
			this.lost = false;
		};
		source.onerror = () => {
			if (!this.lost) this.events.onLost();
			this.lost = true;
			/* A browser gives up after a refusal; a server that starts may refuse at first. */
			if (source.readyState === EventSource.CLOSED) this.again = window.setTimeout(() => this.connect(), 2000);
		};
	}
}
