// Flame graphs for tests: folded stacks, encoded as the server encodes them.

/** Folded stacks to names and levels: self first, then children in byte order, gaps to the bar before. */
export function encodeLevels(stacks) {
  const node = (name) => ({ name, total: 0, self: 0, children: new Map() });
  const root = node('total');
  for (const [stack, value] of stacks) {
    let at = root;
    at.total += value;
    for (const name of stack.split(';')) {
      if (!at.children.has(name)) at.children.set(name, node(name));
      at = at.children.get(name);
      at.total += value;
    }
    at.self += value;
  }
  const names = [], index = new Map(), levels = [];
  const indexOf = (name) => {
    if (!index.has(name)) index.set(name, names.push(name) - 1);
    return index.get(name);
  };
  for (let row = [[root, 0]]; row.length > 0; ) {
    const values = [], next = [];
    let end = 0;
    for (const [n, x] of row) {
      values.push(x - end, n.total, n.self, indexOf(n.name));
      end = x + n.total;
      let at = x + n.self;
      for (const child of [...n.children.values()].sort((a, b) => (a.name < b.name ? -1 : 1))) {
        next.push([child, at]);
        at += child.total;
      }
    }
    levels.push(values);
    row = next;
  }
  return { names, levels };
}

/** SelectMergeStacktracesResponse { flamegraph 1 { names 1, levels 2 { values 1 }, total 3 } } */
export function encodeResponse({ names, levels }) {
  const varint = (n) => {
    const out = [];
    if (n < 0) { // ten bytes, as of any int64 below zero
      for (let b = BigInt.asUintN(64, BigInt(n)); ; b >>= 7n) {
        if (b < 128n) return Buffer.from([...out, Number(b)]);
        out.push(Number(b & 127n) | 128);
      }
    }
    let v = n;
    for (; v > 127; v = Math.floor(v / 128)) out.push((v % 128) | 128);
    return Buffer.from([...out, v]);
  };
  const field = (number, bytes) => Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
  const graph = [
    ...names.map((n) => field(1, Buffer.from(n))),
    ...levels.map((l) => field(2, field(1, Buffer.concat(l.map(varint))))),
    Buffer.concat([varint(3 << 3), varint(levels[0][1])]),
  ];
  return field(1, Buffer.concat(graph));
}

/** Two sets of folded stacks as one comparison: names and levels of 7 numbers a frame. */
export function encodeDiff(left, right) {
  const node = (name) => ({ name, l: [0, 0], r: [0, 0], children: new Map() }), root = node('total');
  const add = (stacks, side) => {
    for (const [stack, value] of stacks) {
      let at = root;
      at[side][0] += value;
      for (const name of stack.split(';')) {
        if (!at.children.has(name)) at.children.set(name, node(name));
        at = at.children.get(name);
        at[side][0] += value;
      }
      at[side][1] += value;
    }
  };
  add(left, 'l');
  add(right, 'r');
  const names = [], index = new Map(), levels = [];
  const indexOf = (name) => {
    if (!index.has(name)) index.set(name, names.push(name) - 1);
    return index.get(name);
  };
  for (let row = [[root, 0, 0]]; row.length > 0; ) {
    const values = [], next = [];
    let endL = 0, endR = 0;
    for (const [n, x, y] of row) {
      values.push(x - endL, n.l[0], n.l[1], y - endR, n.r[0], n.r[1], indexOf(n.name));
      endL = x + n.l[0];
      endR = y + n.r[0];
      let a = x + n.l[1], b = y + n.r[1];
      for (const child of [...n.children.values()].sort((p, q) => (p.name < q.name ? -1 : 1))) {
        next.push([child, a, b]);
        a += child.l[0];
        b += child.r[0];
      }
    }
    levels.push(values);
    row = next;
  }
  return { names, levels };
}

function random(seed) {
  let s = seed;
  return () => {
    s = (s + 0x6d2b79f5) | 0;
    let t = Math.imul(s ^ (s >>> 15), 1 | s);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const PACKAGES = [
  'net/http', 'encoding/json', 'compress/flate', 'github.com/acme/shop/cart', 'github.com/acme/shop/price',
  'github.com/redis/go-redis/v9', 'google.golang.org/grpc', 'google.golang.org/protobuf/proto', 'database/sql',
  'github.com/klauspost/compress/zstd', 'gorm.io/gorm', 'go.opentelemetry.io/otel/sdk/trace', 'runtime',
];
const TYPES = ['(*Server)', '(*Client)', '(*Pool)', '(*decodeState)', '(*encoder)', ''];
const VERBS = ['Serve', 'Handle', 'Decode', 'Encode', 'Query', 'Find', 'flush', 'scan', 'Write', 'Read', 'compute', 'alloc'];

/** About `count` stacks that look like those of a Go service: few hot paths, a long tail. */
export function synthetic(count, seed = 7) {
  const next = random(seed), pick = (list) => list[Math.floor(next() * list.length)];
  const name = () => [pick(PACKAGES), pick(TYPES), pick(VERBS)].filter(Boolean).join('.');
  const stacks = [];
  let path = ['net/http.(*conn).serve', 'net/http.serverHandler.ServeHTTP'];
  for (let i = 0; i < count; i++) {
    const keep = Math.max(next() < 0.05 ? 0 : 2, Math.floor(path.length * (0.35 + 0.6 * next())));
    path = path.slice(0, keep);
    if (path.length === 0) path = [pick(['runtime.mcall', 'runtime.gcBgMarkWorker', 'main.main', 'net/http.(*conn).serve'])];
    const grow = 1 + Math.floor(next() * 6);
    for (let k = 0; k < grow && path.length < 45; k++) path.push(name());
    stacks.push([path.join(';'), 1e7 * Math.ceil(1 / (0.02 + next()))]);
  }
  return stacks;
}
