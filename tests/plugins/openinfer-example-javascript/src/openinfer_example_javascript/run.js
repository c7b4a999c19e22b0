// Runs model.mjs in a folder with run.json and files of arrays, and writes result.json and files of results there.
import { readFileSync, writeFileSync } from "node:fs";
import { bits, given, inputs, outputs, registers, shapes, states, step } from "./model.mjs";

const run = JSON.parse(readFileSync("run.json"));
const bytes = (a) => new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
const files = new Map(run.inputs.map((n) => [n, readFileSync(`input${n}.bin`)]));
run.inputs.forEach((n) => { given[n] = true; });
run.states.forEach((n) => bytes(states[n]).set(readFileSync(`state${n}.bin`)));
const results = outputs.map(() => []), ofSteps = [];

// The elements of a result, whose array has room for the largest shape.
function written(n, shape) {
  return bytes(outputs[n]).slice(0, Math.ceil(shape.reduce((a, b) => a * b, 1) * bits[n] / 8));
}

let micros = 0;
for (let k = 0; k < run.steps; ++k) {
  for (const [n, file] of files) {
    const each = file.length / run.steps;
    bytes(inputs[n]).set(file.subarray(k * each, (k + 1) * each));
  }
  // Every run of a step begins with the state that the step begins with.
  const kept = [registers.slice(), ...states.map((a) => a.slice())], times = [];
  for (let r = run.repeat > 1 ? -1 : 0; r < run.repeat; ++r) {
    kept[0].forEach((x, n) => { registers[n] = x; });
    states.forEach((a, n) => a.set(kept[n + 1]));
    const start = performance.now();
    step(run.sizes);
    if (r >= 0) times.push(performance.now() - start);
  }
  micros += 1000 * Math.min(...times);
  ofSteps.push(shapes());
  outputs.forEach((_, n) => results[n].push(written(n, ofSteps[k][n])));
}
results.forEach((parts, n) => writeFileSync(`output${n}.bin`, Buffer.concat(parts)));
writeFileSync("result.json", JSON.stringify({ micros: micros / run.steps, shapes: ofSteps }));
