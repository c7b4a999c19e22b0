// The element types with their arithmetic, whose meaning is total. Elements are numbers, BigInts where a type has 64
// bits, booleans, and the bits of low floats. `f32.add(a, b)` is `tree.add` of two f32.
const F = Math.fround;
const scratch = new Float32Array(1), scratchBits = new Uint32Array(scratch.buffer);

function fail(rule) { throw new Error(`out of range: ${rule}`); }
function refuse(code) { throw new Error(`${code.replaceAll("-", " ")}: an index, a size or a cache that is full`); }

const compared = {
  eq: (a, b) => a === b, ne: (a, b) => a !== b, lt: (a, b) => a < b, le: (a, b) => a <= b, gt: (a, b) => a > b,
  ge: (a, b) => a >= b, select: (c, a, b) => c ? a : b, minimum: (a, b) => b < a || a !== a ? b : a,
  maximum: (a, b) => b > a || a !== a ? b : a,
};
const plain = (array, zero) => ({ array, zero, load: (a, i) => a[i], store: (a, i, x) => { a[i] = x; } });

// Integers wrap; x / 0 and x % 0 are 0; a count below 0 acts as 0, one past the width shifts everything out.
function integer(bits, isSigned, array) {
  const big = bits === 64, left = 32 - bits, mask = 2 ** bits - 1, zero = big ? 0n : 0, one = big ? 1n : 1;
  const fit = big ? (isSigned ? (x) => BigInt.asIntN(64, x) : (x) => BigInt.asUintN(64, x))
    : isSigned ? (x) => x << left >> left : bits === 32 ? (x) => x >>> 0 : (x) => x & mask;
  const mul = big ? (a, b) => a * b : Math.imul, truncate = big ? (x) => x : Math.trunc;
  const right = big ? (a, n) => a >> n : (a, n) => Math.floor(a / 2 ** n), minus = big ? -1n : -1;
  const low = isSigned ? -(2n ** BigInt(bits - 1)) : 0n, high = low + 2n ** BigInt(bits) - 1n;
  return {
    ...compared, ...plain(array, zero), ...(bits < 8 ? packed(bits, isSigned) : {}), big, fit,
    low: big ? low : Number(low), high: big ? high : Number(high),
    add: (a, b) => fit(a + b), sub: (a, b) => fit(a - b), mul: (a, b) => fit(mul(a, b)), neg: (a) => fit(-a),
    absolute: (a) => fit(a < 0 ? -a : a), div: (a, b) => b ? fit(truncate(a / b)) : zero,
    rem: (a, b) => b ? fit(a % b) : zero, bit_and: (a, b) => fit(a & b), bit_or: (a, b) => fit(a | b),
    power: (a, b) => {
      let result = one;
      for (; b; b = right(b, one)) { if (b & one) result = fit(mul(result, a)); a = fit(mul(a, a)); }
      return result;
    },
    bit_xor: (a, b) => fit(a ^ b), bit_not: (a) => fit(~a),
    shl: (a, n) => n >= bits ? zero : fit(a << (n < 0 ? zero : n)),
    shr: (a, n) => n >= bits ? (a < 0 ? minus : zero) : right(a, n < 0 ? zero : n),
  };
}

// Several elements a byte, lowest bits first.
function packed(bits, isSigned) {
  const mask = (1 << bits) - 1, left = 32 - bits;
  return {
    packed: true,
    load: (a, i) => {
      const code = a[Math.floor(i * bits / 8)] >> (i * bits % 8) & mask;
      return isSigned ? code << left >> left : code;
    },
    store: (a, i, x) => {
      const at = Math.floor(i * bits / 8), shift = i * bits % 8;
      a[at] = a[at] & ~(mask << shift) | (x & mask) << shift;
    },
  };
}

const functions = "exp expm1 log log1p sqrt sin cos tan tanh floor ceil trunc".split(" ");
const float = (fit, array) => ({
  ...compared, ...plain(array, 0), fit, float: true,
  add: (a, b) => fit(a + b), sub: (a, b) => fit(a - b), mul: (a, b) => fit(a * b), div: (a, b) => fit(a / b),
  rem: (a, b) => fit(a % b), neg: (a) => -a, absolute: Math.abs, erf: (x) => fit(erf(x)), round_even: roundEven,
  power: (a, b) => a === 1 || (a === -1 && Math.abs(b) === Infinity) ? 1 : fit(a ** b),
  is_nan: (x) => x !== x, is_inf: (x) => Math.abs(x) === Infinity,
  sign_bit: (x) => x < 0 || Object.is(x, -0) || (x !== x && ((scratch[0] = x), scratchBits[0] >>> 31 === 1)),
  ...Object.fromEntries(functions.map((name) => [name, (x) => fit(Math[name](x))])),
});

// Floats of m fraction bits and a biased exponent, stored as their bits.
const narrow = (m, bias, array) => ({
  ...plain(array, 0),
  narrow: (x) => {
    const sign = x < 0 || Object.is(x, -0) ? 2 * (bias + 1) << m : 0, top = 2 * bias + 1 << m, a = Math.abs(x);
    if (a !== a) return top | 1 << (m - 1);
    if (a === Infinity) return sign | top;
    scratch[0] = a;
    const e = Math.max((scratchBits[0] >>> 23) - 127, 1 - bias);
    return sign | Math.min(roundEven(a * 2 ** (m - e)) + (e + bias - 1) * 2 ** m, top);
  },
  widen: (code) => {
    const sign = code >> m & 2 * (bias + 1) ? -1 : 1, e = code >> m & 2 * bias + 1, f = code & (1 << m) - 1;
    if (e === 2 * bias + 1 && !f) return sign * Infinity;
    if (e === 2 * bias + 1) return (scratchBits[0] = sign < 0 ? 0xffc00000 : 0x7fc00000), scratch[0];
    return sign * (e ? (f + 2 ** m) * 2 ** (e - bias - m) : f * 2 ** (1 - bias - m));
  },
});

const i1 = integer(1, true, Uint8Array), i2 = integer(2, true, Uint8Array), i4 = integer(4, true, Uint8Array);
const u1 = integer(1, false, Uint8Array), u2 = integer(2, false, Uint8Array), u4 = integer(4, false, Uint8Array);
const i8 = integer(8, true, Int8Array), i16 = integer(16, true, Int16Array), i32 = integer(32, true, Int32Array);
const u8 = integer(8, false, Uint8Array), u16 = integer(16, false, Uint16Array);
const u32 = { ...integer(32, false, Uint32Array), from_bits: (x) => ((scratchBits[0] = x), scratch[0]) };
const i64 = integer(64, true, BigInt64Array), u64 = integer(64, false, BigUint64Array), bitset = { ...u8 };
const to_bits = (x) => ((scratch[0] = x), scratchBits[0]);
const f32 = { ...float(F, Float32Array), fma, to_bits }, f64 = float((x) => x, Float64Array);
const f8 = narrow(2, 15, Uint8Array), f16 = narrow(10, 15, Uint16Array), bf16 = narrow(7, 127, Uint16Array);
const t2 = { ...i2, ternary: true };
const t1 = { ...u1, ternary: true, load: (a, i) => 2 * u1.load(a, i) - 1, store: (a, i, x) => u1.store(a, i, x > 0) };
const bool = {
  ...compared, ...plain(Uint8Array, false), load: (a, i) => !!a[i], logical_and: (a, b) => a && b,
  logical_or: (a, b) => a || b, logical_xor: (a, b) => a !== b, logical_not: (a) => !a,
};

function cast(from, to, x) {
  if (from === to) return x;
  if (from.widen) return cast(f32, to, from.widen(x));
  if (to.narrow) return to.narrow(cast(from, f32, x));
  if (to === bool) return x !== from.zero;
  if (from === bool) return to.big ? BigInt(x) : Number(x);
  if (to.float) return to.fit(from.big ? (to === f32 ? bigToF32(x) : Number(x)) : x);
  if (from.float) return fromFloat(to, x);
  if (to.ternary) return x;
  if (to.big) return to.fit(BigInt(x));
  return to.fit(from.big ? Number(BigInt.asIntN(32, x)) : x);
}

// Toward zero; NaN is 0, and what is out of range the nearest limit.
function fromFloat(to, x) {
  if (x !== x) return to.zero;
  if (x <= Number(to.low)) return to.low;
  if (x >= Number(to.high)) return to.high;
  return to.big ? BigInt(Math.trunc(x)) : Math.trunc(x) + 0;
}

// Rounded once: of what a double cannot hold, the last bit says whether anything was lost.
function bigToF32(x) {
  const a = x < 0n ? -x : x;
  if (a < 1n << 53n) return F(Number(x));
  const rounded = F(Number(a >> 11n | (a & 2047n ? 1n : 0n))) * 2048;
  return x < 0n ? -rounded : rounded;
}

function roundEven(x) {
  const r = Math.round(x);
  return Math.abs(x % 1) === 0.5 && r % 2 !== 0 ? r - 1 : r;
}

// a * b + c of f32, rounded once: the double sum is rounded to odd, so that the second rounding sees what was lost.
function fma(a, b, c) {
  const p = a * b, s = p + c, t = s - p, lost = p - (s - t) + (c - t);
  if (!lost || !Number.isFinite(s)) return F(s);
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, s);
  const bits = view.getBigInt64(0);
  if (!(bits & 1n)) view.setBigInt64(0, bits + ((lost > 0) === (s > 0) ? 1n : -1n));
  return F(view.getFloat64(0));
}

// A series of positive terms near 0 (Abramowitz and Stegun 7.1.6), a continued fraction elsewhere (7.1.14).
function erf(x) {
  const a = Math.abs(x);
  if (a < 1.75) {
    let term = x, sum = x;
    for (let n = 1; n < 60; ++n) sum += term *= 2 * x * x / (2 * n + 1);
    return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
  }
  let tail = a;
  for (let n = 120; n > 0; --n) tail = a + n / 2 / tail;
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / tail);
}

// Combine neighbours at half the distance again and again.
function across(a, combine) {
  let parts = Array.from(a);
  while (parts.length > 1) {
    const half = parts.length + 1 >> 1;
    parts = parts.slice(0, half).map((p, k) => k + half < parts.length ? combine(p, parts[k + half]) : p);
  }
  return parts[0];
}

// The bits of floats, which engines may change in a NaN that they hold as a number.
const raw = (a) => a instanceof Float32Array
  ? new Uint32Array(a.buffer, a.byteOffset, a.length) : new BigUint64Array(a.buffer, a.byteOffset, a.length);

function weight(type, text) {
  const bytes = Uint8Array.from(Buffer.from(text, "base64"));
  return new type.array(bytes.buffer, 0, bytes.length / type.array.BYTES_PER_ELEMENT);
}

function fill(type, array, count, x) {
  for (let i = 0; i < count; ++i) type.store(array, i, x);
}

// Integers of loop bounds, registers and indices of tables, which have 64 bits.
const whole = (x) => BigInt.asIntN(64, x) === x ? x : fail("an index needs more than 64 bits");
const integers = {
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "%": (a, b) => a % b, floor: (a, b) => a / b,
  "/": (a, b) => a % b ? fail("a division has a rest") : a / b, ceil: (a, b) => (a + b - 1n) / b,
};
function exact(a, operator, b) {
  if (!"+-*".includes(operator) && (a < 0n || b < 1n)) fail("a division is of less than 0, or by less than 1");
  return whole(integers[operator](a, b));
}

// Sizes and places as numbers; the items of an array that hold so many elements, and a copy of the first ones.
const size = (x) => Number.isSafeInteger(Number(x)) ? Number(x) : fail("a size");
const copy = (array, source, items = array.length) => array.set(source.slice(0, items));
const items = (bits, count) => bits < 8 ? Math.ceil(size(count) * bits / 8) : size(count);

// Registers become the extents up to the last element that is not x.
function shrink(registers, wanted, type, array, shape, x) {
  for (const register of wanted) if (register >= 0) registers[register] = 0n;
  for (let n = 0; n < shape.reduce((a, b) => a * b, 1); ++n) {
    if (type.load(array, n) === x) continue;
    let rest = n;
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      const end = BigInt(rest % shape[axis] + 1), register = wanted[axis];
      if (register >= 0 && registers[register] < end) registers[register] = end;
      rest = Math.floor(rest / shape[axis]);
    }
  }
}

// An entry of a prefix table, whose indices count from ``starts``.
function entry(table, indices, starts, extents) {
  let at = 0;
  indices.forEach((index, axis) => {
    const place = index - BigInt(starts[axis]);
    if (place < 0n || place >= BigInt(extents[axis])) fail("an index of a prefix table");
    at = at * extents[axis] + Number(place);
  });
  return table[at] ?? fail("a prefix table has no such entry");
}
