// SPDX-License-Identifier: Apache-2.0
// Buffers (backed by malloc), JSON and zlib streams.
'use strict';
const zlib = require('zlib');

const rounds = Number(process.argv[2]);
let total = 0;

function record(i) {
	return { id: i, name: `record ${i}`, tags: ['a' + (i % 7), 'b' + (i % 11)], at: { x: i / 2, y: i / 3 } };
}

for (let round = 0; round < rounds; round++) {
	const buffers = [];
	for (let i = 0; i < 3000; i++) {
		const buffer = Buffer.alloc(64 + (i * 37) % 5000, i & 255);
		buffer.writeUInt32LE(i, 0);
		buffers.push(buffer);
		if (buffers.length > 200)
			total += buffers.shift().readUInt32LE(0);
	}
	const text = JSON.stringify(Array.from({ length: 1500 }, (_, i) => record(round * 100 + i)));
	total += JSON.parse(text).length + Buffer.concat(buffers).length;
	if (round % 8 === 0)
		total += zlib.inflateSync(zlib.deflateSync(Buffer.from(text), { level: 1 })).length;
}
console.log(total);
