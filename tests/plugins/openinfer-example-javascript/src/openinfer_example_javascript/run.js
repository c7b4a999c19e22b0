// Runs model.mjs: `node run.mjs STEPS REPEAT GIVEN`, where GIVEN has a 1 for each input that a file has, else a 0.
import { readFileSync, writeFileSync } from "node:fs";
import { given, inputs, outputs, step } from "./model.mjs";

const [steps, repeat] = process.argv.slice(2, 4).map(Number);
const bytes = (a) => new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
const files = inputs.map((_, n) => (given[n] = process.argv[4][n] === "1") && readFileSync(`input${n}.bin`));
const results = outputs.map(() => []);
let micros = 0;
for (let k = 0; k < steps; ++k) {
  inputs.forEach((a, n) => given[n] && bytes(a).set(files[n].subarray(k * a.byteLength, (k + 1) * a.byteLength)));
  const times = [];
  for (let r = repeat > 1 ? -1 : 0; r < repeat; ++r) {
    const start = performance.now();
    step();
    if (r >= 0) times.push(performance.now() - start);
  }
  micros += 1000 * Math.min(...times);
  outputs.forEach((a, n) => results[n].push(bytes(a).slice()));
}
results.forEach((parts, n) => writeFileSync(`output${n}.bin`, Buffer.concat(parts)));
console.log(micros / steps);
