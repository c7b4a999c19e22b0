"""Programs that hand variables to consumer blocks."""

PROGRAMS = {
    "a writer and readers of what was yielded": """
        dynamic { x: f32[4]; }
        volatile { h: f32[4]; a: f32[4]; b: f32; y: f32[4]; }
        block entry {
          transfer x >> h;
          yield h;
          op mul(x, x) >> y;
          await h;
          op add(y, h) >> y;
          return y, a, b, h;
        }
        block alters { await h; op exp(h) >> h; op add(h, h) >> h; yield h; }
        block reads { await h; op neg(h) >> a; yield h; }
        block sums { await h; op sum_axis(h) >> b; yield h; }""",
    "two variables, one after the other": """
        dynamic { x: f32[4]; }
        volatile { g: f32[4]; h: f32[4]; a: f32[4]; b: f32[4]; }
        block entry {
          transfer x >> g;
          yield g;
          op mul(x, x) >> h;
          yield h;
          await g;
          await h;
          yield h;
          op add(g, a) >> g;
          await h;
          return a, b, g, h;
        }
        block both { await g; await h; op add(g, h) >> a; yield g, h; }
        block one { await h; op neg(h) >> b; op add(h, b) >> t; op add(h, t) >> h; branch more; yield h; }
        block more { op add(b, b) >> b; return; }""",
    "a loop hands over in each turn": """
        dynamic { x: f32[4]; }
        volatile { a: f32[4]; s: f32; y: f32[4]; }
        persistent { calls: i32; }
        block entry {
          transfer x >> a;
          cache.read calls >> before;
          loop turns (i in 0..before % 4) {
            yield a;
            op add(y, x) >> y;
            await a;
            loop more (j in 0..2) { op add(y, s) >> y; yield a; await a; }
          }
          cache.increment calls;
          return y, a, s;
        }
        block halves { await a; op add(a, a) >> b; op sub(b, a) >> a; op tanh(a) >> a; cache.increment calls; yield a; }
        block sums { await a; op sum_axis(a) >> s; yield a; }""",
    "consumers keep persistent variables": """
        dynamic { x: f32[4]; }
        volatile { h: f32[4]; a: f32[4]; n: i32; }
        persistent { sum: f32[4]; count: i32; }
        block entry {
          transfer x >> h;
          yield h;
          cache.increment count;
          await h;
          cache.read count >> n;
          return a, n;
        }
        block adds {
          await h;
          cache.read sum >> before;
          op add(before, h) >> a;
          cache.write a >> sum;
          yield h;
        }""",
}
