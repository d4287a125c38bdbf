// SPDX-License-Identifier: Apache-2.0
// Loads a file into valgrind's own dh_view.js, with as much of a page around it as it needs, and
// prints what it then shows: node dh_view.mjs /usr/libexec/valgrind/dh_view.js FILE
import { readFileSync } from "node:fs";
import vm from "node:vm";

const [script, path] = process.argv.slice(2);

/** An element or a text: a tree whose text can be read. */
class Node {
	childNodes = [];
	own = "";
	classList = { contains: () => false };
	appendChild(child) {
		child.parentNode = this;
		this.childNodes.push(child);
		return child;
	}
	cloneNode() {
		return new Node();
	}
	replaceChild(by, old) {
		by.parentNode = this;
		this.childNodes[this.childNodes.indexOf(old)] = by;
	}
	set textContent(text) {
		this.own = text;
	}
	get textContent() {
		return this.own + this.childNodes.map((child) => child.textContent).join("");
	}
	/* Of a menu, and of an option in it. */
	selectedIndex = 0;
	set selected(yes) {
		if (yes) this.parentNode.selectedIndex = this.parentNode.childNodes.indexOf(this);
	}
}

const page = {
	document: {
		title: "", body: new Node(), location: { search: "" },
		createElement: () => new Node(),
		createTextNode: (text) => Object.assign(new Node(), { own: text }),
	},
	FileReader: class {
		readAsText() {
			this.onload({ target: { result: readFileSync(path, "utf8") } });
		}
	},
	performance, URLSearchParams, console,
};
vm.createContext(page);
vm.runInContext(readFileSync(script, "utf8"), page);
// A file that it cannot use makes it throw here.
vm.runInContext("onLoad(); gInput.files = [{name: 'file'}]; loadFile();", page);
console.log(vm.runInContext("gMainDiv.textContent", page));
